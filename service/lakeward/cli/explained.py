"""What `explain` reads of a table, each thing when it is asked for.

Touches: the table, reading only: a scan, one read for each clean and each savepoint, the quarantine's manifests; for a
         file that is gone and for an instant its commit, and one read for each rollback.
"""

from __future__ import annotations

import os
import posixpath
from dataclasses import replace
from functools import cached_property

from lakeward.base.clock import SystemClock
from lakeward.base.errors import NotFound, Refused, UsageError
from lakeward.cli.configured_table import ConfiguredTable
from lakeward.config.settings import Writers
from lakeward.format.file_name import parse_any_data_file
from lakeward.format.timeline.clean_plan import clean_plan_root, read_clean_plan
from lakeward.format.timeline.commit_metadata import CommitMetadata
from lakeward.format.timeline.instant import State
from lakeward.format.timeline.rollback_metadata import read_restored, read_rolled_back
from lakeward.protocol.owner import Processes
from lakeward.protocol.pending.rollback import RollbackDecision
from lakeward.protocol.pending.stuck_services import Judge
from lakeward.read.slice_input import MERGED_BY_KEY
from lakeward.services.archive.plan.archive_plan import ArchivePlan
from lakeward.services.archive.run.archive_preview import archive_plan_of
from lakeward.services.archive.settings import ArchiveSettings
from lakeward.services.clean.plan.decision import CleanOutcome
from lakeward.services.clean.plan.policy import CleanPolicy
from lakeward.services.clean.run.clean_choice import CleanChoice, find_retention
from lakeward.services.clean.settings import CleanSettings
from lakeward.services.savepoint.run import find_pinned
from lakeward.services.savepoint.savepoint_plan import Pinned
from lakeward.services.together.explaining.file_explanation import FileExplainer, FileExplanation, FileFacts, find_path
from lakeward.services.together.explaining.instant_explanation import InstantExplanation, InstantFacts, explain_instant
from lakeward.services.together.explaining.judged_by import JudgedBy
from lakeward.services.together.explaining.storage_states import StorageStates, storage_states
from lakeward.storage.storage import is_absolute, join
from lakeward.table.quarantine import Quarantine, load_quarantine
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_config import timeline_folder
from lakeward.table.timeline.archived import load_archived_times
from lakeward.table.timeline.cleans import Clean, read_cleans
from lakeward.table.timeline.instant_content import InstantContents
from lakeward.table.timeline.timeline_reader import TimelineReader


class Explained:
    def __init__(
        self,
        opened: ConfiguredTable,
        *,
        snapshot: TableSnapshot | None = None,
    ) -> None:
        """
        Args:
            snapshot: one that was taken just now; else one is taken.
        """
        self._opened = opened
        self.snapshot = snapshot or opened.snapshot()

    @cached_property
    def clean(self) -> CleanOutcome:
        """A clean of the whole table as it would be planned now; by Hudi's default where it is unknown how much the
        table's writers keep, and none is planned.
        """
        opened = self._opened
        options = replace(opened.table.section(CleanSettings).options, policy=self.judged_by.clean)
        return CleanChoice(opened.storage, opened.base_path, options, clock=SystemClock()).outcome(self.snapshot)

    @cached_property
    def judged_by(self) -> JudgedBy:
        """The settings: of the configuration, key by key; what it does not say is as for commands without options."""
        opened, table = self._opened, self._opened.table
        clean, archive = table.section(CleanSettings), table.section(ArchiveSettings)
        kept = find_retention(opened.storage, self.snapshot, clean.options)
        because = "the configuration says so" if clean.is_given else kept.why
        beside = table.as_hudi_has_it
        return JudgedBy(
            kept.policy or CleanPolicy(),
            because if kept.policy is not None else f"that is Hudi's default, and {because}",
            archive.chosen(beside),
            "the configuration says so" if archive.by_hudis_keys(beside) else "that is Hudi's default",
        )

    @cached_property
    def storage_states(self) -> StorageStates:
        return storage_states(self.snapshot, self.clean, self._quarantine)

    @cached_property
    def pinned(self) -> list[Pinned]:
        return find_pinned(self._opened.storage, self._opened.base_path, self.snapshot)

    @cached_property
    def archiving(self) -> ArchivePlan | None:
        """What the archiver would do now; None where it is refused."""
        opened = self._opened
        try:
            options = self.judged_by.archive
            return archive_plan_of(opened.storage, opened.base_path, self.snapshot, options, clock=SystemClock())
        except (Refused, NotFound):
            return None  # what is not found, an archiver that is at work took just now

    def file(self, given: str) -> FileExplanation:
        """Raises `UsageError`."""
        facts = FileFacts(
            cleans=self._cleans,
            planned_deletions=self._planned_deletions(),
            quarantine=self._quarantine,
            pinned=self.pinned,
        )
        if (name := parse_any_data_file(posixpath.basename(given), native=True)) is not None:
            facts = replace(facts, committed=_paths(self._commit(name.instant)))
        opened = self._opened
        path = find_path(
            given,
            base_path=opened.base_path,
            snapshot=self.snapshot,
            facts=facts,
            from_here=_from_here(given, opened.base_path),
        )
        if not any(path == known for files in self.snapshot.files for known, _ in files.sizes):
            # What no listing has may be there all the same, in a folder that is no partition.
            status = opened.storage.stat(join(opened.base_path, path))
            is_file = status is not None and not status.is_folder
            facts = replace(
                facts, rolled_back=self._rolled_back(), unlisted_size=status.size if status and is_file else None
            )
        return FileExplainer(self.snapshot, self.clean, facts).explain(path)

    def instant(self, time: str) -> InstantExplanation:
        """Raises `UsageError` for what has not the form of an instant."""
        if not (time.isascii() and time.isdigit()):
            raise UsageError(
                f"{time} is not the time of an instant.",
                why="That is digits alone, as at the beginning of the names of the timeline's files.",
                remedy="`lakeward inspect` shows the timeline; --file explains a data file.",
            )
        opened, timeline = self._opened, self.snapshot.timeline
        commit = self._commit(time)
        rolled_back = self._rolled_back()
        facts = FileFacts(cleans=self._cleans, quarantine=self._quarantine, rolled_back=rolled_back)
        explainer = FileExplainer(self.snapshot, self.clean, facts)
        archived: str | None = None
        if timeline.find(time) is None:
            times = load_archived_times(opened.storage, opened.base_path, self.snapshot.config, {time})
            archived = times.completion_times.get(time)
        target = self.snapshot.rollback_targets.get(time)
        return explain_instant(
            time,
            self.snapshot,
            InstantFacts(
                operation=None if commit is None else commit.operation_type,
                merged_by=None if commit is None else commit.extra_metadata.get(MERGED_BY_KEY),
                files=[explainer.explain(path, committed=True) for path in _paths(commit)],
                clean=next((clean for clean in self._cleans if clean.instant == time), None),
                archived_at=archived,
                rolled_back_by=rolled_back.get(time),
                rolls_back=[*(done for done, by in rolled_back.items() if by == time), *([target] if target else [])],
                archiving=self.archiving,
                decision=next((each for each in self._decisions() if each.instant == time), None),
            ),
        )

    def _decisions(self) -> tuple[RollbackDecision, ...]:
        """What a rollback would do to each pending service."""
        opened = self._opened
        judge = Judge(
            opened.storage,
            opened.base_path,
            SystemClock(),
            Processes(),
            opened.table.silent_after,
            writers_stopped=opened.locks.writers is Writers.STOPPED,
        )
        return judge.services(self.snapshot)

    @cached_property
    def _quarantine(self) -> Quarantine:
        return load_quarantine(self._opened.storage, self._opened.base_path)

    @cached_property
    def _cleans(self) -> tuple[Clean, ...]:
        opened = self._opened
        return read_cleans(opened.storage, opened.base_path, self.snapshot.config, self.snapshot.timeline)

    @cached_property
    def _contents(self) -> InstantContents:
        opened = self._opened
        return InstantContents(opened.storage, opened.base_path, self.snapshot.config, self.snapshot.timeline)

    def _planned_deletions(self) -> dict[str, frozenset[str]]:
        """Paths that each pending clean is going to delete; a plan that is gone says nothing."""
        found = {}
        root, folder = (
            clean_plan_root(self._opened.base_path),
            timeline_folder(self._opened.base_path, self.snapshot.config),
        )
        for each in self.snapshot.timeline.instants:
            if each.action != "clean" or each.state is not State.REQUESTED or each.time not in self._pending_cleans:
                continue
            try:
                data = self._contents.read(each.file_name)
            except NotFound:
                continue
            plan = read_clean_plan(data, root=root, file=join(folder, each.file_name))
            found[each.time] = frozenset(join(path, name) for path, names in plan.files.items() for name in names)
        return found

    @property
    def _pending_cleans(self) -> frozenset[str]:
        return frozenset(each.time for each in self.snapshot.timeline.pending if each.action == "clean")

    def _commit(self, time: str) -> CommitMetadata | None:
        """What a completed write of the active timeline says; None where there is none, or it cannot be read."""
        opened, timeline = self._opened, self.snapshot.timeline
        found = timeline.find_write(time)
        if found is None or found.state is not State.COMPLETED:
            return None
        return TimelineReader(opened.storage, opened.base_path, self.snapshot.config, timeline).commit_metadata(found)

    def _rolled_back(self) -> dict[str, str]:
        """Maps what the rollbacks and restores on the timeline took off it to these."""
        readers = {"rollback": read_rolled_back, "restore": read_restored}
        folder = timeline_folder(self._opened.base_path, self.snapshot.config)
        found = {}
        for each in self.snapshot.timeline.completed:
            if (read := readers.get(each.action)) is None:
                continue
            try:
                data = self._contents.read(each.file_name)
            except NotFound:
                continue
            found.update(dict.fromkeys(read(data, file=join(folder, each.file_name)), each.time))
        return found


def _from_here(given: str, base_path: str) -> str | None:
    """The path below a table of the file system that a path from the current folder is; None where it is not below."""
    if is_absolute(given) or not base_path.startswith("/"):
        return None
    # Links are followed in both, but for that of the file itself: a table holds none.
    folder, name = os.path.split(os.path.join(os.getcwd(), given))
    path, root = os.path.join(os.path.realpath(folder), name), os.path.realpath(base_path)
    return path.removeprefix(f"{root}/") if path.startswith(f"{root}/") else None


def _paths(commit: CommitMetadata | None) -> list[str]:
    """Paths of the files that a commit wrote, once each."""
    stats = () if commit is None else commit.partition_to_write_stats.values()
    paths = (path for of in stats for stat in of for path in (stat.path, *(stat.cdc_stats or ())) if path is not None)
    return sorted({path for path in paths if parse_any_data_file(path.rpartition("/")[2], native=True) is not None})
