"""What breaks tables, by experience: the catalogue of `lakeward doctor`.

What loses or doubles rows comes first. A check asks what the services ask before they work, so that a pattern is wrong
here only where they are.

    work_checks     plans that read what is gone, or that others have overtaken; what a dead process left half done
    table_checks    files, keys, clocks, properties, timeline, metadata table: what must be relied on
    upkeep_checks   what is left behind; what makes a table slower or larger than it has to be

Touches: nothing; what a check needs, `doctor_view` reads.
Keeps:   1. each symptom has evidence of this table, and says what to do;
         2. a command that deletes or writes stands beside its dry run;
         3. what a pattern says that Hudi makes of it, Hudi makes of a table that has it.
See:     docs/operate/doctor.md, whose table a test holds equal to the catalogue
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from lakeward.protocol.lock.table_lock import Guard
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.together.doctor import table_checks, upkeep_checks, work_checks
from lakeward.services.together.doctor.diagnosis import Diagnosis, Grade, Pattern
from lakeward.services.together.doctor.doctor_view import DoctorView
from lakeward.services.together.doctor.examination import examine


def examine_table(
    table: ServicedTable, *, shares_lock: bool, guard: Guard, with_options: Collection[str] = ()
) -> Diagnosis:
    """Look for all patterns of the catalogue. Raises what the guard raises.

    Args:
        shares_lock: an operator says that all writers of the table share a lock.
        with_options: the options that were given, of those that patterns need.
    """
    return examine(PATTERNS, lambda: DoctorView(table, shares_lock=shares_lock), with_options=with_options, guard=guard)


PATTERNS: Sequence[Pattern] = (
    Pattern(
        code="plan-over-gone-files",
        grade=Grade.DANGER,
        title="A pending plan reads files that are gone",
        why="The rows of these files are lost to every reader, and the plan fails each time that it is carried out, so "
        "that its file groups are compacted no more. Hudi's cleaner has deleted such logs before they were in a base "
        "file.",
        source="apache/hudi issues 13826, 19290 and 9257",
        tried="A query gives older rows in place of those in the log. The compaction fails each time, and leaves a "
        "base file of its own behind.",
        check=work_checks.plans_over_gone_files,
    ),
    Pattern(
        code="clean-of-planned-files",
        grade=Grade.DANGER,
        title="A pending clean is about to delete what a pending plan reads",
        why="The next engine that cleans deletes the files, and the rows in their logs are lost with them.",
        source="apache/hudi issue 19290",
        tried="Its next clean deletes the log. From then on a query gives older rows, and the compaction fails.",
        check=work_checks.cleans_of_planned_files,
    ),
    Pattern(
        code="clustering-overwritten",
        grade=Grade.DANGER,
        title="A pending clustering has file groups that were overwritten since",
        why="Carried out, it writes the overwritten rows into new file groups, where readers find them again.",
        source="apache/hudi issues 18830 and 19074",
        tried="Its clustering brings the overwritten rows back.",
        check=work_checks.clusterings_overwritten,
    ),
    Pattern(
        code="replaced-group-back",
        grade=Grade.DANGER,
        title="File groups that were replaced count again",
        why="The commit that replaced them was archived before a clean took their files, and nothing else says that "
        "they do not count: their rows stand beside those that replaced them.",
        source="apache/hudi issue 6938",
        tried="A query gives the replaced rows beside the new ones.",
        check=table_checks.replaced_groups_back,
    ),
    Pattern(
        code="damaged-files",
        grade=Grade.DANGER,
        title="Files are not what their commits say",
        why="Readers fail on the file, or are content with the rows that are left. A compaction would make that final.",
        source="apache/hudi issues 9257 and 7969",
        tried="A log that was cut by seven bytes is read without its last block: deleted rows are there again.",
        check=table_checks.damaged(is_anchor=False),
    ),
    Pattern(
        code="anchor-gone",
        grade=Grade.DANGER,
        title="A log is gone that leads readers to what a log compaction wrote",
        why="Hudi's readers place the output of a log compaction by the newest log that is there of those that it "
        "stands for. Once none is there, they pass over the rows of all of them in silence.",
        source="decision 0132 of Lakeward, tried with Hudi 1.2.0",
        tried="While one such log is left, a query is right. Without any it gives deleted rows, and old ones.",
        check=table_checks.damaged(is_anchor=True),
    ),
    Pattern(
        code="partition-gone",
        grade=Grade.DANGER,
        title="A partition is not listed, though commits wrote rows into it",
        why="Its folder, or the partition metadata in it, is gone. Every reader is content with the other partitions.",
        source="apache/hudi issue 10885",
        tried="A query gives nothing of the partition.",
        check=table_checks.gone_partitions,
    ),
    Pattern(
        code="unexplained-file-group",
        grade=Grade.DANGER,
        title="It is unknown which files make up a file group",
        why="Two base files of one instant, or files of an instant that no timeline explains: engines may read "
        "different rows, and give deleted ones back.",
        source="upgrades by Hudi 1.2.0, tried; retried tasks without markers",
        tried="Of two base files of one instant a query reads one, and misses the rows of the other.",
        check=table_checks.unexplained_groups,
    ),
    Pattern(
        code="restore-interrupted",
        grade=Grade.DANGER,
        title="A restore was begun and not completed",
        why="Some commits are taken back and others are not: readers see a state that there never was, and all "
        "services wait.",
        source="decision 0035 of Lakeward",
        tried="No write begins: Found pending restore in active timeline.",
        check=work_checks.interrupted("restore", "pending-restore"),
    ),
    Pattern(
        code="commit-half-rolled-back",
        grade=Grade.DANGER,
        title="A commit that completed is being rolled back, and the rollback is not completed",
        why="Some of its files may be deleted already: readers fail on them, or see a part of the commit.",
        source="apache/hudi issue 8603",
        tried="The next write ends the rollback, and what the completed commit did is undone.",
        check=work_checks.interrupted("rollback", "pending-rollback"),
    ),
    Pattern(
        code="metadata-out-of-step",
        grade=Grade.DANGER,
        title="The metadata table lists other files than the storage",
        why="Readers that list by it fail on files that are gone, or miss the rows of files that it does not list.",
        source="apache/hudi issues 10628 and 4896",
        tried="A query fails on the file that is gone; with hoodie.metadata.enable=false it misses the rows.",
        check=table_checks.metadata_out_of_step,
    ),
    Pattern(
        code="doubled-keys",
        grade=Grade.DANGER,
        title="A record key has several rows",
        why="Queries give each of them, and an update changes one: from then on they differ.",
        source="apache/hudi issues 18641, 11989 and 4501",
        tried="A query gives each row.",
        check=table_checks.doubled_keys,
        needs="--keys",
    ),
    Pattern(
        code="orphan-files",
        grade=Grade.DANGER,
        title="Data files are left of a write that was rolled back, or that no timeline knows",
        why="No reader sees them yet. Once the rollback is archived nothing says that they do not count: Hudi takes "
        "files from before its timeline for committed, and rows are doubled.",
        source="apache/hudi issues 18783 and 14200",
        tried="A query passes over the file. With an instant from before the timeline it gives its rows, so that "
        "each key has two.",
        check=upkeep_checks.orphan_files,
    ),
    Pattern(
        code="wrong-index-definitions",
        grade=Grade.DANGER,
        title="An index of the metadata table is defined wrongly",
        why="Queries that use the index may look for values where they are not, and pass over files that hold them; "
        "writers may fail on a column that is gone.",
        source="apache/hudi issue 19716",
        tried="Where column statistics name a column that is gone, a query and a write are right.",
        check=table_checks.wrong_index_definitions,
    ),
    Pattern(
        code="instant-in-future",
        grade=Grade.DANGER,
        title="An instant lies in the future",
        why="What is committed until then lies below it: readers of newer file slices pass over it. Hudi refuses to "
        "roll failed writes back, and begins no other write.",
        source="apache/hudi issue 5843",
        tried="Where a write failed, no other one begins: Found commits after time, please rollback greater commits "
        "first.",
        check=table_checks.future_instants,
    ),
    Pattern(
        code="mixed-zones",
        grade=Grade.DANGER,
        title="Writers are in several time zones, or their clocks disagree",
        why="The order of instants is not the order of the writes, so a later write may lose to an earlier one.",
        source="apache/hudi pull requests 8284 and 9794",
        tried="A query is right: it does not look at the times of files.",
        check=table_checks.mixed_zones,
    ),
    Pattern(
        code="timeline-broken",
        grade=Grade.DANGER,
        title="The timeline has files that cannot be relied on",
        why="An instant whose file is empty or torn may or may not count, and engines differ in what they make of it.",
        source="apache/hudi pull request 18210, issue 17963",
        tried="A query is right. An incremental query passes over the commit whose file is empty, and gives rows "
        "that it deleted.",
        check=table_checks.broken("frozen-timeline", "broken-pending-plan", "unknown-action"),
    ),
    Pattern(
        code="archive-broken",
        grade=Grade.DANGER,
        title="The archived timeline cannot be read",
        why="Which old files count is asked of the archive. Without it file groups are left out, or an engine guesses.",
        source="apache/hudi issues 4466 and 19649",
        tried="Archiving fails: Error deserializing manifest entries. Queries and writes go on.",
        check=table_checks.archive_broken,
    ),
    Pattern(
        code="version-change-interrupted",
        grade=Grade.DANGER,
        title="An upgrade or downgrade of the table was not clean",
        why="Properties, timeline and files are of different table versions: an engine of one version reads logs of "
        "the other as something else, or not at all.",
        source="apache/hudi issues 11835 and 9833",
        tried="A query and a write pass over a left backup of the properties, and leave it.",
        check=table_checks.broken("properties-backup", "properties-checksum", "timeline-layout", "native-log-name"),
    ),
    Pattern(
        code="compaction-overwritten",
        grade=Grade.WARNING,
        title="A pending compaction has file groups that were overwritten since",
        why="Hudi's cleaner takes these files although the plan names them. From then on Hudi fails on the plan, and "
        "none of its file groups is compacted.",
        source="decision 0037 of Lakeward, tried with Hudi 1.2.0",
        tried="A clean by versions takes the files. From then on the compaction fails.",
        check=work_checks.compactions_overwritten,
    ),
    Pattern(
        code="failed-write-left",
        grade=Grade.WARNING,
        title="A write died and was not rolled back",
        why="Its instant holds back cleaning and archiving, and the first engine that takes it for its own ends it "
        "differently.",
        source="apache/hudi issue 1764",
        tried="A query passes over the write. A clean leaves it, and the next write rolls it back.",
        check=work_checks.failed_writes,
    ),
    Pattern(
        code="rollback-not-ended",
        grade=Grade.WARNING,
        title="The rollback of a failed write is not completed",
        why="No reader sees the write, but it is still there, and services wait for the rollback.",
        source="apache/hudi issue 8603",
        tried="A query passes over the write, and the next write ends the rollback.",
        check=work_checks.rollbacks_not_ended,
    ),
    Pattern(
        code="service-stuck",
        grade=Grade.WARNING,
        title="A service died, and its plan holds file groups",
        why="No engine compacts, clusters or indexes these file groups until what the dead process left is gone.",
        source="apache/hudi issues 8567 and 19313",
        tried="No other plan gets the file group, and writes leave it as it is. Asked for by its instant, the "
        "compaction is done.",
        check=work_checks.stuck_services,
    ),
    Pattern(
        code="archive-manifest-left",
        grade=Grade.WARNING,
        title="A manifest of the archive was left half written",
        why="Hudi takes its name for a version and fails on it whenever it archives, so the active timeline grows.",
        source="apache/hudi issue 19649",
        tried="Archiving fails each time: For input string: 114.a5e022a6….",
        check=table_checks.archive_leftovers,
    ),
    Pattern(
        code="archiving-held",
        grade=Grade.WARNING,
        title="The active timeline grows, and something keeps the archiver from it",
        why="Each reader and each writer lists the whole of it, and reads what it says.",
        source="apache/hudi issue 8567",
        tried="Archiving takes nothing. Without the pending write it takes most of the timeline at once.",
        check=upkeep_checks.archiving_held,
    ),
    Pattern(
        code="dead-markers",
        grade=Grade.ADVICE,
        title="Markers or heartbeats are left of writes that are over",
        why="They cost storage and listings, and keep data files of those writes from counting as orphan files.",
        source="apache/hudi issue 6069",
        tried="Writes and cleans leave them, and a query is right.",
        check=upkeep_checks.dead_markers,
    ),
    Pattern(
        code="small-files",
        grade=Grade.ADVICE,
        title="Partitions have many small files",
        why="Each query opens each of them, and each task of an engine has little to do.",
        source="apache/hudi issues 2393 and 13475",
        tried="A query is right, and opens each file.",
        check=upkeep_checks.small_files,
    ),
)
"""The worst first."""
