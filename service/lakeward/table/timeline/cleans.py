"""What the cleans on the active timeline say: as of when everything can still be read, what they deleted, how much the
one who planned them wants to keep.

Touches: storage, reading only: one read for each clean.
Keeps:   one that cannot be read is a `BrokenFile`, never a clean that deleted nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field

from lakeward.base.errors import NotFound
from lakeward.base.paths import join
from lakeward.base.quantities import format_count
from lakeward.format.timeline.clean_metadata import read_clean_metadata
from lakeward.format.timeline.clean_plan import (
    clean_plan_root,
    read_clean_plan,
    read_earliest_retained,
    read_retention,
)
from lakeward.format.timeline.instant import Instant, State, comparable_time
from lakeward.storage.storage import Storage
from lakeward.table.table_config import TableConfig, timeline_folder
from lakeward.table.timeline.instant_content import InstantContents
from lakeward.table.timeline.service_instants import PLANNED_BY
from lakeward.table.timeline.timeline import Timeline

UNDOES = "lakeward.undoes"
"""A key of the extra metadata of a completed clean: the clean whose files it brought back. Where another engine ended
it, and brought nothing back, it is not there."""


UNDO_OF = "lakeward.undo-of"
"""A key of the extra metadata of a requested clean: the clean whose files it is to bring back."""


@dataclass(frozen=True, slots=True)
class Clean:
    instant: str
    is_completed: bool
    earliest_retained: str
    """The instant as of which, and after which, everything can be read; empty under the policy of file versions."""
    deleted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names of the files that it deleted, or could not, by partition path."""
    undoes: str | None = None
    """The clean whose files it brought back."""

    @property
    def paths(self) -> frozenset[str]:
        """The files that it deleted, or could not."""
        return frozenset(join(partition, name) for partition, names in self.deleted.items() for name in names)

    @property
    def sentence(self) -> str:
        """What it deleted, and what can be read since."""
        number = sum(map(len, self.deleted.values()))
        retained = self.earliest_retained
        since = f" Everything can still be read as of {retained} and after." if retained else ""
        if not self.is_completed:
            return f"It is going to delete what its plan names; any cleaner ends it.{since}"
        undone = f" It undid clean {self.undoes}." if self.undoes else ""
        return f"It deleted {format_count(number, 'file')}.{since}{undone}"


def not_undone(cleans: Iterable[Clean]) -> tuple[Clean, ...]:
    """The cleans but for those that were undone: what these took away is there again."""
    cleans = tuple(cleans)
    undone = {clean.undoes for clean in cleans}
    return tuple(clean for clean in cleans if clean.instant not in undone)


def read_cleans(storage: Storage, base_path: str, config: TableConfig, timeline: Timeline) -> tuple[Clean, ...]:
    """The cleans, oldest first, the pending ones among them."""
    contents = InstantContents(storage, base_path, config, timeline)
    folder = timeline_folder(base_path, config)
    requested = {i.time: i for i in timeline.instants if i.action == "clean" and i.state is State.REQUESTED}
    found = []
    for instant in (*timeline.completed, *timeline.pending):
        if instant.action != "clean":
            continue
        is_completed = instant.state is State.COMPLETED
        source = instant if is_completed else requested.get(instant.time)
        if source is None:  # its plan is gone, so it may delete anything
            found.append(Clean(instant.time, False, ""))
            continue
        try:
            data = contents.read(source.file_name)
        except NotFound:
            continue  # archived or rolled back since
        file = join(folder, source.file_name)
        if not is_completed:
            found.append(Clean(instant.time, False, read_earliest_retained(data, file=file)))
            continue
        metadata = read_clean_metadata(data, file=file)
        deleted = {
            path: tuple(name.rpartition("/")[2] for name in (*each.deleted, *each.failed))
            for path, each in metadata.partitions.items()
        }
        undoes = metadata.extra_metadata.get(UNDOES)
        found.append(Clean(instant.time, True, metadata.earliest_retained, deleted, undoes))
    return tuple(sorted(found, key=lambda clean: comparable_time(clean.instant)))


def read_planned_deletions(
    storage: Storage, base_path: str, config: TableConfig, timeline: Timeline
) -> dict[str, frozenset[str]]:
    """Paths that each pending clean is going to delete, by its instant; a plan that is gone says nothing."""
    contents = InstantContents(storage, base_path, config, timeline)
    root, folder = clean_plan_root(base_path), timeline_folder(base_path, config)
    pending = {each.time for each in timeline.pending if each.action == "clean"}
    found = {}
    for each in timeline.instants:
        if each.action != "clean" or each.state is not State.REQUESTED or each.time not in pending:
            continue
        try:
            plan = read_clean_plan(contents.read(each.file_name), root=root, file=join(folder, each.file_name))
        except NotFound:
            continue
        found[each.time] = frozenset(join(path, name) for path, names in plan.files.items() for name in names)
    return found


@dataclass(frozen=True, slots=True)
class CleanRetention:
    """What a clean says of how much is kept."""

    instant: str
    policy: str
    """In Hudi's words."""
    earliest_retained: str
    """Empty where it names none."""
    last_completed: str
    """The last commit that it knew of."""
    is_own: bool = False
    adopted: str = ""
    """What a clean of Lakeward adopted of the writers'."""


RetentionCache = MutableMapping[str, CleanRetention]
"""What was read, by the name of the timeline file."""


def find_clean_retention(
    storage: Storage,
    base_path: str,
    config: TableConfig,
    timeline: Timeline,
    *,
    adopted_key: str,
    cache: RetentionCache | None = None,
) -> CleanRetention | None:
    """What the newest clean says, pending ones too: another engine's, or one of Lakeward's that adopted it. None where
    no clean of the active timeline says anything.

    Args:
        adopted_key: the key of a clean's extra metadata under which Lakeward's say what they adopted.
    """
    known: RetentionCache = {} if cache is None else cache
    contents = InstantContents(storage, base_path, config, timeline)
    folder = timeline_folder(base_path, config)
    by_time = {i.time: i for i in timeline.instants if i.action == "clean" and i.state is State.REQUESTED}
    by_time |= {i.time: i for i in timeline.completed if i.action == "clean"}
    names = {instant.file_name for instant in by_time.values()}
    for gone in [name for name in known if name not in names]:
        del known[gone]
    for instant in sorted(by_time.values(), key=lambda each: comparable_time(each.time), reverse=True):
        name = instant.file_name
        if name not in known:
            try:
                known[name] = _read_retention(contents.read(name), instant, join(folder, name), adopted_key)
            except NotFound:
                continue  # archived or rolled back since
        if not known[name].is_own or known[name].adopted:
            return known[name]
    return None


def _read_retention(data: bytes, instant: Instant, file: str, adopted_key: str) -> CleanRetention:
    if instant.state is State.COMPLETED:
        done = read_clean_metadata(data, file=file)
        policy, earliest, last, extra = done.policy, done.earliest_retained, done.last_completed, done.extra_metadata
    else:
        policy, earliest, last, extra = read_retention(data, file=file)
    return CleanRetention(instant.time, policy, earliest, last, PLANNED_BY in extra, extra.get(adopted_key, ""))
