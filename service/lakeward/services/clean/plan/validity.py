"""Which files of a clean's plan, Lakeward's or another engine's, may not go now: a snapshot and names in, reasons out.

Between a plan and its deletions a savepoint may be made, a plan of another service written down, a commit rolled back.
So the plan is held against the table once more, by the least that every policy keeps (`services/clean/plan/planner.py`
with one version): what readers of the newest slices read, what a pending plan reads, what a savepoint names. For each
file:

    in a slice that is dead by that                       it may go
    a log of changes that the operator gave up            it may go, if no savepoint and no plan holds its slice
    in any other slice, or uncommitted, or of a group     it stays
    that is frozen, or of a name that we do not know
    not there                                             it has gone already, or stands to go as one that retired;
                                                          then it stays if a pending plan or a savepoint names it

A log that is to retire is in a slice that readers read. It stays where no output of a log compaction stands for it, or
a pending plan or a savepoint holds its slice.

Touches: nothing.
Keeps:   1. a file that readers, a pending plan or a savepoint need stays, with all of its slice, but for logs of
            changes that the operator gave up, which readers of rows do not need;
         2. while a restore, or a rollback of something that is completed, is under way everything stays;
         3. what no committed slice explains stays;
         4. a log retires only while the output that stands for it is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lakeward.base.paths import join
from lakeward.format.file_name import is_change_log, parse_any_data_file
from lakeward.format.timeline.instant import State
from lakeward.services.clean.plan.keeper import KeepReason
from lakeward.services.clean.plan.planner import plan_clean
from lakeward.services.clean.plan.policy import CleanPolicy, CleanPolicyKind
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot

_LEAST = CleanPolicy(CleanPolicyKind.VERSIONS, 1)
_HOLDS_CHANGES = frozenset({KeepReason.SAVEPOINT, KeepReason.PENDING_PLAN})

_HOLDS_SOURCES = frozenset(
    {
        KeepReason.SAVEPOINT,
        KeepReason.PENDING_PLAN,
        KeepReason.OTHER_ENGINE,
        KeepReason.ANCHOR,
        KeepReason.NAMES_LOGS,
        KeepReason.CAPTURES_CHANGES,
        KeepReason.NO_BASE,
        KeepReason.NOT_TRIED,
    }
)

DROPS_CHANGES = "lakeward.drops-changes"
"""A key of the extra metadata of a clean plan: the logs of changes that it names go though their slices stay, for the
operator said so."""


def find_needed(
    snapshot: TableSnapshot, files: Mapping[str, Sequence[str]], *, drops_changes: bool = False
) -> dict[str, str]:
    """Paths of those of the files that stay, each with the reason.

    Args:
        snapshot: it shows the partitions of the files whole.
        files: names by partition path.
        drops_changes: the operator gave up the logs of changes among the files.
    """
    paths = [join(partition, name) for partition, names in files.items() for name in names]
    if (why := _is_going_back(snapshot)) is not None:
        return dict.fromkeys(paths, why)
    outcome = plan_clean(snapshot, _LEAST, now=0.0)
    stays: dict[str, str] = {}
    for decision in outcome.kept:
        why = ", ".join(
            f"{keeper.reason}{f' {keeper.instant}' if keeper.instant else ''}" for keeper in decision.keepers
        )
        partition = decision.slice.partition_path
        gives_up = drops_changes and not any(keeper.reason in _HOLDS_CHANGES for keeper in decision.keepers)
        names = (name for name in decision.file_names if not (gives_up and is_change_log(name)))
        stays |= dict.fromkeys((join(partition, name) for name in names), why)
    stays |= dict.fromkeys(snapshot.uncommitted_files, "no completed commit brought it")
    stays |= dict.fromkeys(snapshot.unrecognised_files, "it is no data file")
    frozen = {(group.partition_path, group.file_id) for group in outcome.frozen}
    needed, native = {}, snapshot.config.version.has_native_logs
    for path in paths:
        group = group_of(*path.rpartition("/")[::2], native=native)
        if group is None:
            needed[path] = "it has not the name of a data file"
        elif group in frozen:
            needed[path] = "the slices of its file group are unknown"
        elif path in stays:
            needed[path] = stays[path]
        elif (why := _named_by(snapshot, group, path)) is not None:
            needed[path] = why
    return needed


def find_unretirable(snapshot: TableSnapshot, retired: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Paths of those of these logs that do not retire now, each with the reason; not of those that are gone.

    Args:
        snapshot: it shows the partitions of the logs whole.
        retired: names by partition path.
    """
    paths = [join(partition, name) for partition, names in retired.items() for name in names]
    if (why := _is_going_back(snapshot)) is not None:
        return dict.fromkeys(paths, why)
    outcome = plan_clean(snapshot, _LEAST, now=0.0, retires_by_anchors=True)
    sources = {source.log.path: source for source in outcome.sources}
    there = {path for files in snapshot.files for path, _ in files.sizes}
    found = {}
    for path in paths:
        if path not in there:
            continue
        source = sources.get(path)
        holds = () if source is None else [each for each in source.keepers if each.reason in _HOLDS_SOURCES]
        if source is None:
            found[path] = "no output of a log compaction stands for it"
        elif holds:
            found[path] = ", ".join(f"{each.reason} {each.instant or ''}".rstrip() for each in holds)
    return found


def _named_by(snapshot: TableSnapshot, group: GroupId, path: str) -> str | None:
    """The pending plan or the savepoint that names a file which no listing shows."""
    plan = next(iter(snapshot.plans_naming(group, path.rpartition("/")[2])), None)
    if plan is not None:
        return f"{KeepReason.PENDING_PLAN} {plan}"
    savepoint = next((time for time, paths in snapshot.savepointed.items() if path in paths), None)
    return None if savepoint is None else f"{KeepReason.SAVEPOINT} {savepoint}"


def groups_of_files(files: Mapping[str, Sequence[str]]) -> Iterator[GroupId]:
    """The file groups that the names are of; of an older table the names of native logs may be among them."""
    for partition, names in files.items():
        for name in names:
            if (group := group_of(partition, name, native=True)) is not None:
                yield group


def group_of(partition_path: str, name: str, *, native: bool) -> GroupId | None:
    parsed = parse_any_data_file(name, native=native)
    return None if parsed is None else (partition_path, parsed.file_id)


def _is_going_back(snapshot: TableSnapshot) -> str | None:
    """Why older slices may become the newest ones again just now."""
    timeline = snapshot.timeline
    for instant in timeline.pending:
        if instant.action == "restore":
            return f"restore {instant.time} is under way"
        if instant.action == "rollback":
            target = timeline.find_write(snapshot.rollback_targets.get(instant.time, ""))
            if target is None or target.state is State.COMPLETED:
                return f"rollback {instant.time} is under way"
    return None
