"""The checks of `lakeward doctor` about files, clocks, and what else of a table must be relied on.

Touches: nothing; what a check needs, `doctor_view` reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lakeward.base.errors import BrokenFile
from lakeward.base.named_key import named_key
from lakeward.base.quantities import format_count, format_time
from lakeward.format.avro.column_names import META_COLUMNS
from lakeward.format.file_name import parse_any_log
from lakeward.format.metadata.partition import SECONDARY_INDEX_PREFIX
from lakeward.format.timeline.history import parse_manifest_name
from lakeward.protocol.refusals.findings import known_columns
from lakeward.services.together.doctor.diagnosis import Symptom
from lakeward.services.together.doctor.doctor_view import DoctorView, say_group
from lakeward.services.together.inspection import instants_in_future
from lakeward.table.damaged_file import DamagedFile, DamageKind


def damaged(*, is_anchor: bool) -> Callable[[DoctorView], Iterator[Symptom]]:
    """The check for logs by which readers find the output of a log compaction, or for all other damage."""

    def check(view: DoctorView) -> Iterator[Symptom]:
        for file in sorted(view.snapshot.damage, key=lambda each: each.path):
            outputs = _found_by(view, file)
            if (outputs != ()) is not is_anchor:
                continue
            evidence = [file.what, *(f"log compaction {time} put its rows into another log" for time in outputs)]
            if file.size is None and (clean := view.deleted_by(file.path)) is not None:
                evidence.append(f"clean {clean} deleted it")
            command = "quarantine list" if is_anchor else "verify"
            yield Symptom(
                subject=file.path, evidence=tuple(evidence), remedy=file.remedy, command=view.command(command)
            )

    return check


def _found_by(view: DoctorView, file: DamagedFile) -> tuple[str, ...]:
    """The log compactions that named a log that is gone: readers find their outputs by it."""
    partition, _, name = file.path.rpartition("/")
    parsed = parse_any_log(name, native=True)
    if file.kind is not DamageKind.MISSING or parsed is None:
        return ()
    compactions = view.snapshot.log_compactions.get((partition, parsed.file_id), ())
    return tuple(each.instant for each in compactions if name in each.log_files)


def gone_partitions(view: DoctorView) -> Iterator[Symptom]:
    for problem in view.gone_partitions:
        yield Symptom(
            subject=f"partition '{problem.subject}'",
            evidence=(problem.what,),
            remedy=problem.remedy,
            command=view.command("verify"),
        )


def replaced_groups_back(view: DoctorView) -> Iterator[Symptom]:
    for instant, groups in sorted(view.replaced_before.items()):
        yield Symptom(
            subject=f"replacecommit {instant}",
            evidence=tuple(f"it has replaced {say_group(each)}, whose files readers read again" for each in groups),
            remedy="Copy the named files away and take them out of the partition, then have the metadata table built "
            "again: no clean takes them, since nothing on the timeline says that they were replaced.",
            command=view.command("files"),
        )


def unexplained_groups(view: DoctorView) -> Iterator[Symptom]:
    for group in view.snapshot.frozen:
        if not group.damage:
            yield Symptom(
                subject=say_group((group.partition_path, group.file_id)),
                evidence=(f"at instant {group.instant}: {group.why}",),
                remedy="Find out who wrote the files of that instant; no service touches the file group until then.",
                command=view.command("explain", "--instant", group.instant),
            )


def future_instants(view: DoctorView) -> Iterator[Symptom]:
    if files := instants_in_future(view.snapshot, view.now):
        yield Symptom(
            subject="instants in the future",
            evidence=tuple(f"{file} lies after {format_time(view.now)}" for file in files),
            remedy="Set the clock that made it right, and stop the writers until that time has passed. Where the clock "
            "was right, --timezone must name the writers' zone.",
            command=view.command("inspect"),
        )


def mixed_zones(view: DoctorView) -> Iterator[Symptom]:
    for refusal in view.refused_by({"timezone-disagrees", "instants-out-of-order"}):
        yield Symptom(
            subject=refusal.subject,
            evidence=(refusal.why, *(each.says for each in view.snapshot.zone.evidence)),
            remedy=refusal.remedy,
            command=view.command("inspect"),
        )


def broken(*ids: str) -> Callable[[DoctorView], Iterator[Symptom]]:
    """The check for what the services refuse by these ids."""

    def check(view: DoctorView) -> Iterator[Symptom]:
        for refusal in view.refused_by(ids):
            yield Symptom(
                subject=refusal.subject, evidence=(refusal.why,), remedy=refusal.remedy, command=view.command("inspect")
            )

    return check


def metadata_out_of_step(view: DoctorView) -> Iterator[Symptom]:
    report = view.metadata
    for partition in sorted({problem.check for problem in report.problems}):
        problems = [problem for problem in report.problems if problem.check == partition]
        yield Symptom(
            subject=f"partition {partition} of the metadata table",
            evidence=tuple(f"{problem.subject}: {problem.what}" for problem in problems),
            remedy=problems[0].remedy,
            **view.act("metadata disable"),
        )


def archive_broken(view: DoctorView) -> Iterator[Symptom]:
    if problems := view.snapshot.archive_problems:
        yield Symptom(
            subject="archived timeline",
            evidence=problems,
            remedy="Restore the file from a copy; nothing else says which of these instants completed.",
            command=view.command("inspect"),
        )


def archive_leftovers(view: DoctorView) -> Iterator[Symptom]:
    for name in view.archive_files:
        if name.startswith("manifest_") and parse_manifest_name(name) is None:
            yield Symptom(
                subject=f"archived timeline, {name}",
                evidence=(f"{name} is no manifest: behind the number there is more",),
                remedy="Delete this file where no archiver is at work: it was never part of the archive.",
            )


def wrong_index_definitions(view: DoctorView) -> Iterator[Symptom]:
    definitions = view.index_definitions
    if isinstance(definitions, BrokenFile):
        yield Symptom(
            subject="index definitions",
            evidence=(f"{definitions.what} {definitions.why}",),
            remedy=definitions.remedy,
            command=view.command("index list"),
        )
        return
    columns, partitions = known_columns(view.snapshot), view.snapshot.config.metadata_partitions
    for name, definition in sorted(definitions.by_name.items()):
        gone = [
            each
            for each in definition.source_fields
            if columns is not None and each.partition(".")[0] not in columns and each not in META_COLUMNS
        ]
        if gone and name in partitions:
            yield Symptom(
                subject=f"index {name}",
                evidence=tuple(f"it is of column {each}, which the newest schema does not have" for each in gone),
                remedy="Remove the index, and let its engine build it again over the columns that there are.",
                **view.act("metadata drop", name),
            )
    for name in partitions:
        if name.startswith(SECONDARY_INDEX_PREFIX) and name not in definitions.by_name:
            yield Symptom(
                subject=f"index {name}",
                evidence=(f"the metadata table has the partition {name}, and no definition says of which column",),
                remedy="Remove the partition, and let its engine build the index again.",
                **view.act("metadata drop", name),
            )


def doubled_keys(view: DoctorView) -> Iterator[Symptom]:
    found = view.repeated_keys
    if found.first:
        shown = found.first[0][0].replace("'", "''")
        yield Symptom(
            subject="record keys",
            evidence=(
                f"{format_count(found.keys, 'key')} with several rows, in {format_count(found.rows, 'row')}",
                *(
                    f"{named_key(key)} has rows in {' and '.join(map(say_group, groups))}"
                    for key, groups in found.first
                ),
            ),
            remedy="Find the writer that inserts what it should update: another index than the other writers have, "
            "insert or bulk_insert of keys that are there, or two writers of one key. Then write the partitions again "
            "with one row of each key: `lakeward write TABLE --operation insert_overwrite --deduplicate`.",
            command=view.command("read", "--where", f"_hoodie_record_key = '{shown}'"),
        )
