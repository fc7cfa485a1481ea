"""What `explain` reads of a table, each thing when it is asked for.

Touches: the table, reading only: a scan, one read for each clean and each savepoint, the quarantine's manifests; for a
         file that is gone and for an instant its commit, and one read for each rollback.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from lakeward.base.errors import NotFound, Refused, UsageError
from lakeward.base.paths import join
from lakeward.format.file_name import check_relative_path, parse_any_data_file
from lakeward.format.timeline.clean_plan import clean_plan_root, read_clean_plan
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
from lakeward.services.together.explaining.instant_explanation import InstantExplanation, InstantFacts, explain_instant
from lakeward.table.quarantine import Quarantine, load_quarantine
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_config import HOODIE_FOLDER, timeline_folder
from lakeward.table.timeline.archived import load_archived_times
from lakeward.table.timeline.cleans import Clean, read_cleans
from lakeward.table.timeline.instant_content import InstantContents
from lakeward.table.timeline.rollbacks import rolled_back_by
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


class TableExplanation:
    def __init__(
        self,
        judge: Judge,
        snapshot: TableSnapshot,
        *,
        clean: CleanSettings,
        archive: ArchiveSettings,
        as_hudi_has_it: Mapping[str, str],
    ) -> None:
        """
        Args:
            as_hudi_has_it: what other services are given, by Hudi's keys.
        """
        self._judge = judge
        self._storage = judge.storage
        self._base_path = judge.base_path
        self.snapshot = snapshot
        self._clean = clean
        self._archive = archive
        self._as_hudi_has_it = as_hudi_has_it

    @cached_property
    def clean(self) -> CleanOutcome:
        """A clean of the whole table as it would be planned now; by Hudi's default where it is unknown how much the
        table's writers keep, and none is planned.
        """
        options = replace(self._clean.options, policy=self.judged_by.clean)
        return CleanChoice(self._storage, self._base_path, options, clock=self._judge.clock).outcome(self.snapshot)

    @cached_property
    def judged_by(self) -> JudgedBy:
        """The settings: of the configuration, key by key; what it does not say is as for commands without options."""
        kept = find_retention(self._storage, self.snapshot, self._clean.options)
        because = "the configuration says so" if self._clean.is_given else kept.why
        beside = self._as_hudi_has_it
        return JudgedBy(
            kept.policy or CleanPolicy(),
            because if kept.policy is not None else f"that is Hudi's default, and {because}",
            self._archive.chosen(beside),
            "the configuration says so" if self._archive.by_hudis_keys(beside) else "that is Hudi's default",
        )

    @cached_property
    def storage_states(self) -> StorageStates:
        return storage_states(self.snapshot, self.clean, self._quarantine)

    @cached_property
    def pinned(self) -> list[Pinned]:
        return find_pinned(self._storage, self._base_path, self.snapshot)

    @cached_property
    def archiving(self) -> ArchivePlan | None:
        """What the archiver would do now; None where it is refused."""
        try:
            options, clock = self.judged_by.archive, self._judge.clock
            return archive_plan_of(self._storage, self._base_path, self.snapshot, options, clock=clock)
        except (Refused, NotFound):
            return None  # what is not found, an archiver that is at work took just now

    def file(self, given: str, *, from_here: str | None = None) -> FileExplanation:
        """Raises `UsageError`.

        Args:
            from_here: see `find_path`.
        """
        facts = FileFacts(
            cleans=self._cleans,
            planned_deletions=self._planned_deletions(),
            quarantine=self._quarantine,
            pinned=self.pinned,
        )
        if (name := parse_any_data_file(posixpath.basename(given), native=True)) is not None:
            facts = replace(facts, committed=_paths(self._commit(name.instant)))
        path = find_path(given, base_path=self._base_path, snapshot=self.snapshot, facts=facts, from_here=from_here)
        if not any(path == known for files in self.snapshot.files for known, _ in files.sizes):
            # What no listing has may be there all the same, in a folder that is no partition.
            status = self._storage.stat(join(self._base_path, path))
            is_file = status is not None and not status.is_folder
            facts = replace(
                facts,
                rolled_back=self._rolled_back,
                unlisted_size=status.size if status and is_file else None,
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
        timeline = self.snapshot.timeline
        commit = self._commit(time)
        rolled_back = self._rolled_back
        facts = FileFacts(cleans=self._cleans, quarantine=self._quarantine, rolled_back=rolled_back)
        explainer = FileExplainer(self.snapshot, self.clean, facts)
        archived: str | None = None
        if timeline.find(time) is None:
            times = load_archived_times(self._storage, self._base_path, self.snapshot.config, {time})
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
                decision=next((each for each in self._judge.services(self.snapshot) if each.instant == time), None),
            ),
        )

    @cached_property
    def _quarantine(self) -> Quarantine:
        return load_quarantine(self._storage, self._base_path)

    @cached_property
    def _cleans(self) -> tuple[Clean, ...]:
        return read_cleans(self._storage, self._base_path, self.snapshot.config, self.snapshot.timeline)

    @cached_property
    def _contents(self) -> InstantContents:
        return InstantContents(self._storage, self._base_path, self.snapshot.config, self.snapshot.timeline)

    @cached_property
    def _rolled_back(self) -> dict[str, str]:
        return rolled_back_by(self._contents, self.snapshot.timeline, skips_gone=True)

    def _planned_deletions(self) -> dict[str, frozenset[str]]:
        """Paths that each pending clean is going to delete; a plan that is gone says nothing."""
        found = {}
        root, folder = (
            clean_plan_root(self._base_path),
            timeline_folder(self._base_path, self.snapshot.config),
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
        timeline = self.snapshot.timeline
        found = timeline.find_write(time)
        if found is None or found.state is not State.COMPLETED:
            return None
        return TimelineReader(self._storage, self._base_path, self.snapshot.config, timeline).commit_metadata(found)


def find_path(
    given: str, *, base_path: str, snapshot: TableSnapshot, facts: FileFacts, from_here: str | None = None
) -> str:
    """The path below the table of the file that `given`, a path or a name, means. Raises `UsageError`.

    Args:
        from_here: the path below the table that it is as one from the current folder; None where that is not below it.
    """
    known = set(_known_paths(snapshot, facts))
    path = _below(given, base_path)
    if from_here is not None and path not in known and (from_here in known or not _is_in_partition(path, snapshot)):
        path = from_here
    if path.split("/", 1)[0] == HOODIE_FOLDER:
        raise UsageError(
            f"{given} is a file of the table's own metadata.",
            why="A file of rows is explained by its path, what is on the timeline by its instant.",
            remedy="Pass --instant with the digits at the beginning of its name.",
        )
    partition, _, name = path.rpartition("/")
    if parse_any_data_file(name, native=snapshot.config.version.has_native_logs) is None:
        raise UsageError(
            f"{given} is not the name of a data file.",
            why="Base files are called <file id>_<token>_<instant>.parquet, logs .<file id>_<instant>.log.<n>_<token>. "
            "Any other file is left alone.",
            remedy="Pass a data file of the table.",
        )
    if partition:
        return check_relative_path(path)
    paths = sorted(each for each in known if each.rpartition("/")[2] == name)
    if len(paths) > 1:
        raise UsageError(
            f"{len(paths)} files are called {name}.",
            why=f"They are {', '.join(paths[:5])}.",
            remedy="Pass the path of the one that you mean.",
        )
    return paths[0] if paths else name


def _below(given: str, base_path: str) -> str:
    """`given` below the base path. Raises `UsageError` for an absolute path that is not."""
    for root in (base_path, f"file://{base_path}", f"file:{base_path}"):
        if given.startswith(f"{root.rstrip('/')}/"):
            return given.removeprefix(f"{root.rstrip('/')}/").strip("/")
    if given.startswith("/") or "://" in given:
        raise UsageError(
            f"{given} is not below {base_path}.",
            why="A file is explained by what its own table says.",
            remedy="Pass the table that it is of, or the path below the table.",
        )
    return given.removeprefix("./").rstrip("/")


def _is_in_partition(path: str, snapshot: TableSnapshot) -> bool:
    """A name alone is, too: it is looked for in all of them."""
    partition = path.rpartition("/")[0]
    return not partition or partition in snapshot.partitions


def _known_paths(snapshot: TableSnapshot, facts: FileFacts) -> Iterator[str]:
    for files in snapshot.files:
        yield from (path for path, _ in files.sizes)
    for clean in facts.cleans:
        yield from (join(partition, name) for partition, names in clean.deleted.items() for name in names)
    for run in facts.quarantine.runs:
        yield from (file.path for file in run.files)
    yield from facts.committed


def _paths(commit: CommitMetadata | None) -> list[str]:
    """Paths of the files that a commit wrote, once each."""
    stats = () if commit is None else commit.partition_to_write_stats.values()
    paths = (path for of in stats for stat in of for path in (stat.path, *(stat.cdc_stats or ())) if path is not None)
    return sorted({path for path in paths if parse_any_data_file(path.rpartition("/")[2], native=True) is not None})
