"""What `explain` reads of a table, each thing when it is asked for.

Touches: the table, reading only: a scan, one read for each clean and each savepoint, the quarantine's manifests; for a
         file that is gone and for an instant its commit, and one read for each rollback.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from lakeward.base.errors import NotFound, Refused, UsageError
from lakeward.base.paths import join
from lakeward.format.file_name import parse_any_data_file
from lakeward.format.timeline.commit_metadata import CommitMetadata
from lakeward.format.timeline.instant import State
from lakeward.protocol.pending.stuck_services import Judge
from lakeward.read.slice_input import MERGED_BY_KEY
from lakeward.services.archive.plan.archive_plan import ArchivePlan
from lakeward.services.archive.plan.hudi_archiver_keys import ArchiveOptions
from lakeward.services.archive.run.archive_preview import archive_plan_of
from lakeward.services.archive.settings import ArchiveSettings
from lakeward.services.clean.plan.decision import CleanOutcome
from lakeward.services.clean.plan.policy import CleanPolicy
from lakeward.services.clean.plan.storage_states import StorageStates, storage_states
from lakeward.services.clean.run.clean_choice import CleanChoice, find_retention
from lakeward.services.clean.settings import CleanSettings
from lakeward.services.savepoint.run import find_pinned
from lakeward.services.savepoint.savepoint_plan import Pinned
from lakeward.services.together.explaining.file_explanation import FileExplainer, FileExplanation, FileFacts
from lakeward.services.together.explaining.instant_explanation import InstantExplanation
from lakeward.storage.storage import Storage
from lakeward.table.data_file_path import find_path
from lakeward.table.quarantine import Quarantine, load_quarantine
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_config import TableConfig
from lakeward.table.timeline.archived import load_archived_times
from lakeward.table.timeline.cleans import Clean, read_cleans, read_planned_deletions
from lakeward.table.timeline.instant_content import InstantContents
from lakeward.table.timeline.rollbacks import rolled_back_by
from lakeward.table.timeline.timeline import Timeline
from lakeward.table.timeline.timeline_reader import TimelineReader


@dataclass(frozen=True, slots=True)
class JudgedBy:
    """The settings by which it says how long a file and an instant stay, and the source of each."""

    clean: CleanPolicy
    clean_because: str
    """Completes the sentence: So much is kept because ..."""
    archive: ArchiveOptions
    archive_because: str

    @property
    def sentence(self) -> str:
        clean, archive = self.clean, self.archive
        return (
            f"This is by a clean that keeps {clean.retain:,} {clean.kind}, because {self.clean_because}, and by an "
            f"archiver that leaves {archive.commits_min:,} to {archive.commits_max:,} commits, because "
            f"{self.archive_because}."
        )


@dataclass(frozen=True)
class TableExplanation:
    judge: Judge
    snapshot: TableSnapshot
    clean_settings: CleanSettings
    archive_settings: ArchiveSettings
    as_hudi_has_it: Mapping[str, str]
    """What other services are given, by Hudi's keys."""

    @cached_property
    def clean(self) -> CleanOutcome:
        """A clean of the whole table as it would be planned now; by Hudi's default where it is unknown how much the
        table's writers keep, and none is planned.
        """
        options = replace(self.clean_settings.options, policy=self.judged_by.clean)
        judge = self.judge
        return CleanChoice(judge.storage, judge.base_path, options, clock=judge.clock).outcome(self.snapshot)

    @cached_property
    def judged_by(self) -> JudgedBy:
        """The settings: of the configuration, key by key; what it does not say is as for commands without options."""
        kept = find_retention(self.judge.storage, self.snapshot, self.clean_settings.options)
        because = "the configuration says so" if self.clean_settings.is_given else kept.why
        beside = self.as_hudi_has_it
        return JudgedBy(
            kept.policy or CleanPolicy(),
            because if kept.policy is not None else f"that is Hudi's default, and {because}",
            self.archive_settings.chosen(beside),
            "the configuration says so" if self.archive_settings.by_hudis_keys(beside) else "that is Hudi's default",
        )

    @cached_property
    def storage_states(self) -> StorageStates:
        return storage_states(self.snapshot, self.clean, self.quarantine)

    @cached_property
    def pinned(self) -> list[Pinned]:
        return find_pinned(self.judge.storage, self.judge.base_path, self.snapshot)

    @cached_property
    def archiving(self) -> ArchivePlan | None:
        """What the archiver would do now; None where it is refused."""
        try:
            options, clock = self.judged_by.archive, self.judge.clock
            return archive_plan_of(self.judge.storage, self.judge.base_path, self.snapshot, options, clock=clock)
        except (Refused, NotFound):
            return None  # what is not found, an archiver that is at work took just now

    def file(self, given: str, *, from_here: str | None = None) -> FileExplanation:
        """Raises `UsageError`.

        Args:
            from_here: see `find_path`.
        """
        facts = self._facts
        if (name := parse_any_data_file(posixpath.basename(given), native=True)) is not None:
            facts = replace(facts, committed=self._written(name.instant))
        path = find_path(
            given, base_path=self.judge.base_path, snapshot=self.snapshot, gone=facts.paths, from_here=from_here
        )
        made_from, went_to = self._clusterings(path)
        facts = replace(facts, made_from=made_from, went_to=went_to)
        if not any(path == known for files in self.snapshot.files for known, _ in files.sizes):
            # What no listing has may be there all the same, in a folder that is no partition.
            status = self.judge.storage.stat(join(self.judge.base_path, path))
            size = None if status is None or status.is_folder else status.size
            facts = replace(facts, rolled_back=self._rolled_back, unlisted_size=size)
        return FileExplainer(self.snapshot, self.clean, facts).explain(path)

    def explainer(self) -> FileExplainer:
        """Explains many files of the listing at once, by what needs no commit of each."""
        return FileExplainer(self.snapshot, self.clean, self._facts)

    def instant(self, time: str) -> InstantExplanation:
        """Raises `UsageError` for what has not the form of an instant."""
        if not (time.isascii() and time.isdigit()):
            raise UsageError(
                f"{time} is not the time of an instant.",
                why="That is digits alone, as at the beginning of the names of the timeline's files.",
                remedy="`lakeward inspect` shows the timeline; --file explains a data file.",
            )
        commit, rolled_back, archived_at = self._commit(time), self._rolled_back, None
        facts = FileFacts(cleans=self._cleans, quarantine=self.quarantine, rolled_back=rolled_back)
        explainer = FileExplainer(self.snapshot, self.clean, facts)
        if self.snapshot.timeline.find(time) is None:
            times = load_archived_times(self.judge.storage, self.judge.base_path, self.snapshot.config, {time})
            archived_at = times.completion_times.get(time)
        target = self.snapshot.rollback_targets.get(time)
        return InstantExplanation(
            time,
            self.snapshot,
            operation=None if commit is None else commit.operation_type,
            merged_by=None if commit is None else commit.extra_metadata.get(MERGED_BY_KEY),
            files=[explainer.explain(path, committed=True) for path in self._written(time)],
            clean=next((clean for clean in self._cleans if clean.instant == time), None),
            archived_at=archived_at,
            rolled_back_by=rolled_back.get(time),
            rolls_back=[*(done for done, by in rolled_back.items() if by == time), *([target] if target else [])],
            archiving=self.archiving,
            decision=next((each for each in self.judge.services(self.snapshot) if each.instant == time), None),
        )

    @property
    def _timeline(self) -> tuple[Storage, str, TableConfig, Timeline]:
        return self.judge.storage, self.judge.base_path, self.snapshot.config, self.snapshot.timeline

    @property
    def _facts(self) -> FileFacts:
        return FileFacts(
            cleans=self._cleans,
            planned_deletions=read_planned_deletions(*self._timeline),
            quarantine=self.quarantine,
            pinned=self.pinned,
        )

    @cached_property
    def quarantine(self) -> Quarantine:
        return load_quarantine(self.judge.storage, self.judge.base_path)

    @cached_property
    def _cleans(self) -> tuple[Clean, ...]:
        return read_cleans(*self._timeline)

    @cached_property
    def _rolled_back(self) -> dict[str, str]:
        return rolled_back_by(InstantContents(*self._timeline), self.snapshot.timeline, skips_gone=True)

    def _clusterings(self, path: str) -> tuple[Collection[str], Collection[str]]:
        """Which file groups a clustering made the file from, and which ones got its rows from another one."""
        partition, _, name = path.rpartition("/")
        parsed = parse_any_data_file(name, native=True)
        assert parsed is not None, "a path of a data file was found"
        made_from: Collection[str] = ()
        went_to: Collection[str] = ()
        made = self._commit(parsed.instant)
        if made is not None and made.is_clustering and path in made.data_files:
            made_from = made.partition_to_replace_file_ids.get(partition, ())
        replaced_by = self.snapshot.replaced.get((partition, parsed.file_id))
        gone = None if replaced_by is None else self._commit(replaced_by)
        if gone is not None and gone.is_clustering:
            stats = gone.partition_to_write_stats.get(partition, ())
            went_to = {each.file_id for each in stats if each.file_id is not None}
        return made_from, went_to

    def _written(self, time: str) -> tuple[str, ...]:
        commit = self._commit(time)
        return () if commit is None else commit.data_files

    def _commit(self, time: str) -> CommitMetadata | None:
        """What a completed write of the active timeline says; None where there is none, or it cannot be read."""
        found = self.snapshot.timeline.find_write(time)
        if found is None or found.state is not State.COMPLETED:
            return None
        return TimelineReader(*self._timeline).commit_metadata(found)
