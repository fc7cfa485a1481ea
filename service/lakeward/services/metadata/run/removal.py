"""Take a table's metadata table away, or one partition of it, so that the next Hudi writer with it on rebuilds it.

    under the lock: end an interrupted update of the properties -> find what goes -> the property -> fence
                    -> move the folder aside
    then            -> delete what was moved aside

The property comes first: from then on readers list the storage and writers write to it no more. With the reverse order
Hudi's writers fail on a metadata table that is said to be there. A folder that no property names does no harm: Hudi
deletes what it finds in the place of a partition before it builds it. It is moved aside before it is deleted, where
that is possible, because a reader that still has the old properties in memory must not find half of its files. In an
object store it is deleted under the lock.

The index definitions stay: Hudi finds by them which secondary and expression indexes to build again, and of which
columns.

Stopped anywhere, the table is sound; what is left is a folder, which the same command finds and removes.

Touches: under the table lock `hoodie.properties`, `.hoodie/metadata`, folders of Lakeward below `.hoodie/.temp`, and
         its notes of builds.
Keeps:   1. nothing is removed while a writer is at work on it as far as that can be seen, by a heartbeat or an
            indexing, nor a partition of which a pending compaction of the metadata table names files;
         2. no folder is deleted that the properties on storage still name;
         3. the metadata table stays where its list alone shows partitions: by listing there is none below another one;
         4. the record index stays while keys may be in logs alone, where other indexes of Hudi's do not find them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from lakeward.base.clock import Clock
from lakeward.base.errors import Refused, TryLater
from lakeward.base.paths import join, parent
from lakeward.format.file_name import check_relative_path
from lakeward.format.metadata.partition import FILES, RECORD_INDEX, SECONDARY_INDEX_PREFIX
from lakeward.index.index_type import IndexType
from lakeward.index.log_inserts import check_none_in_logs, read_log_inserts
from lakeward.protocol.attempts.fencing import fencing_of
from lakeward.protocol.attempts.heartbeat import Life, read_liveness, watch
from lakeward.protocol.attempts.heartbeat_line import heartbeat_path
from lakeward.protocol.index_out_of_use import put_in_use
from lakeward.protocol.lock.lock_choice import LockOptions, open_lock
from lakeward.protocol.lock.table_lock import Fence, OnWait, wait_silently
from lakeward.protocol.metadata.build_notes import forget_builds
from lakeward.protocol.owner import Processes
from lakeward.protocol.refusals.eligibility import Refusal, refuse
from lakeward.protocol.table_properties import recover_properties, update_properties
from lakeward.storage.storage import Storage
from lakeward.table.listing_source import find_table_partitions
from lakeward.table.metadata.metadata_table import metadata_base_path
from lakeward.table.partition import nested_partitions, paths_above
from lakeward.table.table_config import TableConfig, hoodie_folder, load_table_config
from lakeward.table.table_version import WRITABLE_VERSIONS
from lakeward.table.timeline.timeline import Timeline, load_timeline

PARTITIONS_PROPERTY = "hoodie.table.metadata.partitions"
INFLIGHT_PROPERTY = "hoodie.table.metadata.partitions.inflight"

_ASIDE = "removed-metadata-"
_UNSAFE_ACTIONS = ("indexing", "restore")
_UNSAFE_METADATA_ACTIONS = ("compaction", "logcompaction", "restore")


@dataclass(frozen=True, slots=True)
class Removal:
    """What goes, or went."""

    base_path: str
    partition: str | None
    """None: the metadata table as a whole."""
    named: tuple[str, ...]
    """Partitions that are taken out of the properties."""
    left: tuple[str, ...]
    """Partitions that stay in the properties."""
    folders: tuple[str, ...]
    """Folders below the base path; those that an interrupted removal left come last."""
    files: int
    size_bytes: int
    is_rebuilt: bool
    """Whether a Hudi writer rebuilds it: of version 10 there is none."""

    @property
    def is_empty(self) -> bool:
        return not self.named and not self.folders


def preview_removal(
    storage: Storage,
    base_path: str,
    partition: str | None,
    *,
    clock: Clock,
    processes: Processes,
    on_wait: OnWait = wait_silently,
) -> Removal:
    """What `remove_metadata` would do now, or why it would not: raises as that does. Writes nothing."""
    _watch_writers(storage, base_path, clock=clock, processes=processes, on_wait=on_wait)
    return _find_removal(storage, base_path, partition, clock=clock, processes=processes)


def remove_metadata(
    storage: Storage,
    base_path: str,
    partition: str | None,
    *,
    lock: LockOptions,
    clock: Clock,
    processes: Processes,
    on_wait: OnWait = wait_silently,
) -> Removal:
    """Remove the partition, or with None the metadata table. Idempotent.

    Raises `Refused` where that is not safe, `TryLater` while a writer is at work, and what the lock raises.
    """
    _watch_writers(storage, base_path, clock=clock, processes=processes, on_wait=on_wait)
    owner = processes.new_owner()
    locked = open_lock(storage, base_path, owner, lock, clock=clock, processes=processes, on_wait=on_wait)
    with locked:
        recover_properties(storage, base_path, fence=locked.fence)
        removal = _find_removal(storage, base_path, partition, clock=clock, processes=processes)
        moved = _take_all_away(storage, removal, clock=clock, attempt=owner.attempt, fence=locked.fence)
    # Writers need not wait for the lock until all of it is deleted.
    for folder in moved:
        storage.delete_folder(folder)
    return removal


def remove_beside_restore(storage: Storage, base_path: str, *, clock: Clock, attempt: int, fence: Fence) -> Removal:
    """The metadata table as a whole, for a restore that holds the lock and has seen that no writer is at work."""
    recover_properties(storage, base_path, fence=fence)
    config = load_table_config(storage, base_path, clock=clock).config
    removal = _removal(storage, base_path, config, None)
    for folder in _take_all_away(storage, removal, clock=clock, attempt=attempt, fence=fence):
        storage.delete_folder(folder)
    return removal


def check_nothing_hidden(base_path: str, partitions: Collection[str]) -> None:
    """Raises `Refused` for a table that must keep its metadata table, because only that knows all of its partitions."""
    if nested := nested_partitions(partitions):
        more = f" and {len(nested) - 1} more" if len(nested) > 1 else ""
        raise Refused(
            f"The metadata table of {base_path} must stay.",
            why=f"Without it no reader finds the rows of partition '{nested[0]}'{more}: Hudi's listing looks at "
            f"nothing below '{next(each for each in paths_above(nested[0]) if each in partitions)}'.",
            remedy="Write their rows to a table that URL-encodes partition values, or under values without a slash, "
            "and delete these partitions first.",
        )


def take_unnamed_aside(storage: Storage, base_path: str, partition: str, *, by: int, fence: Fence) -> None:
    """What lies in the place of a partition that the properties do not name goes, before it is built. Under the lock.

    Args:
        by: number of the attempt that builds it.
    """
    folder = join(metadata_base_path(base_path), check_relative_path(partition))
    for each in ([folder] if storage.list(folder) else []) + taken_aside(storage, base_path):
        fence()
        if (moved := _take_away(storage, each, base_path, by, fence)) is not None:
            storage.delete_folder(moved)


def taken_aside(storage: Storage, base_path: str) -> list[str]:
    """The folders that a removal took away and left; the next one deletes them."""
    return [status.path for status in storage.list(_temp_folder(base_path)) if _is_aside(status.name)]


def find_unbuilt(
    storage: Storage, base_path: str, partitions: Sequence[str], *, clock: Clock, processes: Processes
) -> tuple[Removal, ...]:
    """What there is of partitions that an indexing was building, for one that is aborted: those that are built stay.
    Raises like `preview_removal`."""
    config = load_table_config(storage, base_path, clock=clock).config
    folders = {each.name for each in storage.list(metadata_base_path(base_path)) if each.is_folder}
    has_aside = any(_is_aside(each.name) for each in storage.list(_temp_folder(base_path)))
    return tuple(
        _find_removal(storage, base_path, name, clock=clock, processes=processes, is_aborted=True)
        for name in partitions
        if name not in config.built_metadata_partitions
        if has_aside or name in folders or name in config.inflight_metadata_partitions
    )


def remove_unbuilt(
    storage: Storage,
    base_path: str,
    partitions: Sequence[str],
    *,
    clock: Clock,
    processes: Processes,
    attempt: int,
    fence: Fence,
) -> tuple[Removal, ...]:
    """Take these away, for a process that holds the lock. Idempotent."""
    recover_properties(storage, base_path, fence=fence)
    removals = find_unbuilt(storage, base_path, partitions, clock=clock, processes=processes)
    for removal in removals:
        for folder in _take_all_away(storage, removal, clock=clock, attempt=attempt, fence=fence):
            storage.delete_folder(folder)
    return removals


def _take_all_away(storage: Storage, removal: Removal, *, clock: Clock, attempt: int, fence: Fence) -> list[str]:
    """Returns the folders that are left to delete, which no reader looks for any more."""
    if removal.is_empty:
        return []
    base_path = removal.base_path
    forget_builds(storage, base_path, removal.named)
    if removal.named:
        update_properties(storage, base_path, _properties_after(storage, removal, clock), fence=fence)
        if RECORD_INDEX in removal.named:
            put_in_use(storage, base_path, IndexType.METADATA)  # the next one that is built is another
    fence()
    folders = [join(base_path, each) for each in removal.folders]
    moved = [_take_away(storage, each, base_path, attempt, fence) for each in folders]
    return [folder for folder in moved if folder is not None]


def _find_removal(
    storage: Storage,
    base_path: str,
    partition: str | None,
    *,
    clock: Clock,
    processes: Processes,
    is_aborted: bool = False,
) -> Removal:
    loaded = load_table_config(storage, base_path, clock=clock)
    config = loaded.config
    if not loaded.checksum_ok:
        raise Refused(
            f"The properties of {base_path} are not to be relied on.",
            why=f"The checksum in {loaded.source} is not that of its content; it may be torn or edited.",
            remedy="Restore the file from a copy, or correct what was edited.",
        )
    if not config.is_writable:
        raise Refused(
            f"The metadata table of {base_path} is left alone.",
            why=f"The table has version {config.version} and timeline layout {config.layout}; this release changes "
            f"those of version {WRITABLE_VERSIONS}.",
            remedy="Write once with hoodie.metadata.enable=false: Hudi then removes it itself.",
        )
    removal = _removal(storage, base_path, config, partition)
    if FILES in removal.named:
        timeline = load_timeline(storage, base_path, config)
        found = find_table_partitions(storage, base_path, config, timeline, clock=clock)
        check_nothing_hidden(base_path, [each.path for each in found.partitions])
    if RECORD_INDEX in removal.named and not is_aborted:
        check_none_in_logs(read_log_inserts(storage, base_path), what="The record index is not removed")
    if not removal.is_empty:
        refusals = _refusals(storage, base_path, config, removal)
        refuse(base_path, tuple(each for each in refusals if not (is_aborted and each.id == "pending-indexing")))
        _check_no_writer(storage, base_path, config, clock, processes)
    return removal


def _removal(storage: Storage, base_path: str, config: TableConfig, partition: str | None) -> Removal:
    known = tuple(dict.fromkeys(config.metadata_partitions))
    aside = taken_aside(storage, base_path)
    metadata_path = metadata_base_path(base_path)
    if partition is None:
        named, folder = known, metadata_path
    else:
        folders = {e.name for e in storage.list(metadata_path) if e.is_folder and not e.name.startswith(".")}
        if partition not in known and partition not in folders and not (partition and aside):
            if not known:
                raise Refused(
                    f"The table {base_path} has no metadata table.",
                    why="Nothing was removed.",
                    remedy="`lakeward inspect TABLE` shows what the table has.",
                )
            raise Refused(
                f"The metadata table of {base_path} has no partition {partition!r}.",
                why=f"Nothing was removed. It has {', '.join(known)}.",
                remedy="Name one of these with `lakeward metadata drop`.",
            )
        if partition == FILES:
            raise Refused(
                f"The partition {FILES} is not removed alone.",
                why="Without it there is no metadata table, and all other partitions are built from it.",
                remedy="Run `lakeward metadata disable TABLE`: the next writer that has it on builds all of it.",
            )
        named = tuple(name for name in known if name == partition)
        folder = join(metadata_path, check_relative_path(partition))
    found = [folder, *aside] if storage.list(folder) else aside
    sizes = [size for path in found for size in _sizes(storage, path)]
    return Removal(
        base_path=base_path,
        partition=partition,
        named=named,
        left=tuple(name for name in known if name not in named),
        folders=tuple(path.removeprefix(f"{base_path}/") for path in found),
        files=len(sizes),
        size_bytes=sum(sizes),
        is_rebuilt=config.version.is_released,
    )


def _refusals(storage: Storage, base_path: str, config: TableConfig, removal: Removal) -> Iterator[Refusal]:
    for instant in load_timeline(storage, base_path, config).pending:
        if instant.action in _UNSAFE_ACTIONS:
            yield Refusal(
                f"pending-{instant.action}",
                instant.file_name,
                "It works with the metadata table, is under way or was interrupted.",
                "Wait for it; where its process is gone, `lakeward metadata abort-indexing` or `restore` ends it.",
            )
    if removal.partition is None:
        return
    for instant in _metadata_timeline(storage, base_path, config).pending:
        if instant.action in _UNSAFE_METADATA_ACTIONS:
            yield Refusal(
                f"pending-metadata-{instant.action}",
                f".hoodie/metadata: {instant.file_name}",
                "It names files of every partition, and would fail without them.",
                "Let a Hudi writer finish it by writing once; or disable the metadata table as a whole.",
            )
    secondary = [name for name in removal.left if name.startswith(SECONDARY_INDEX_PREFIX)]
    if removal.partition == RECORD_INDEX and secondary:
        yield Refusal(
            "secondary-index",
            ", ".join(secondary),
            "Secondary indexes lead to rows by way of the record index.",
            "Rebuild them first, so that the next writer builds all of them.",
        )


def _metadata_timeline(storage: Storage, base_path: str, config: TableConfig) -> Timeline:
    # The two are laid out alike; the properties of a metadata table that is broken need not be readable.
    return load_timeline(storage, metadata_base_path(base_path), config)


def _check_no_writer(storage: Storage, base_path: str, config: TableConfig, clock: Clock, processes: Processes) -> None:
    """Hudi's writers write to the metadata table also without the lock, as long as their heartbeat lives."""
    timelines = {
        base_path: load_timeline(storage, base_path, config),
        metadata_base_path(base_path): _metadata_timeline(storage, base_path, config),
    }
    for path, timeline in timelines.items():
        for instant in sorted({instant.time for instant in timeline.pending}):
            liveness = read_liveness(storage, path, instant, clock=clock, processes=processes)
            if liveness.life is Life.ALIVE:
                raise TryLater(
                    f"A writer is at work on {base_path}: instant {instant} is under way.",
                    why=f"Its heartbeat in {join(path, '.hoodie/.heartbeat')} is {liveness.age_seconds:.0f} s old, and "
                    "it began with the metadata table as it is.",
                    remedy="Run the command again when it has ended; two minutes after the last heartbeat it counts "
                    "as dead.",
                )


def _watch_writers(storage: Storage, base_path: str, *, clock: Clock, processes: Processes, on_wait: OnWait) -> None:
    """Before the lock: until it can be known of each pending write whether it is alive."""
    config = load_table_config(storage, base_path, clock=clock).config
    for path in (base_path, metadata_base_path(base_path)):
        beating = {status.name for status in storage.list(parent(heartbeat_path(path, "0")))}
        if beating:
            pending = {instant.time for instant in load_timeline(storage, path, config).pending}
            watch(storage, path, beating & pending, clock=clock, processes=processes, on_wait=on_wait)


def _properties_after(storage: Storage, removal: Removal, clock: Clock) -> dict[str, str]:
    config = load_table_config(storage, removal.base_path, clock=clock).config
    gone = set(removal.named)
    return {
        PARTITIONS_PROPERTY: ",".join(name for name in config.built_metadata_partitions if name not in gone),
        INFLIGHT_PROPERTY: ",".join(name for name in config.inflight_metadata_partitions if name not in gone),
    }


def _take_away(storage: Storage, folder: str, base_path: str, attempt: int, fence: Fence) -> str | None:
    """Take a folder from its place. Returns what is left to delete, which no reader looks for any more."""
    if _is_aside(folder.rpartition("/")[2]):
        return folder
    return fencing_of(storage).take_aside(folder, join(_temp_folder(base_path), f"{_ASIDE}{attempt}"), fence)


def _temp_folder(base_path: str) -> str:
    return join(hoodie_folder(base_path), ".temp")


def _is_aside(name: str) -> bool:
    return name.startswith(_ASIDE)


def _sizes(storage: Storage, folder: str) -> Iterator[int]:
    """Sizes of all files below it."""
    for status in storage.list(folder):
        if status.is_folder:
            yield from _sizes(storage, status.path)
        else:
            yield status.size
