"""What the archiver must know of a table, and of its metadata table, beside the names on their timelines.

Touches: storage, reading only: the metadata table's timeline, one read for each clean, and of the archive only
         files that reach to the active timeline; for the metadata table's own timeline one listing of each partition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from lakeward.base.clock import Clock
from lakeward.format.file_name import HFILE, PARQUET, parse_any_data_file
from lakeward.format.timeline.instant import Instant, State
from lakeward.services.archive.plan.archive_plan import GOES, ArchiveFacts
from lakeward.storage.storage import Storage
from lakeward.table.file_group import FileGroup
from lakeward.table.metadata.metadata_table import (
    MetadataTable,
    has_metadata_table,
    latest_compaction,
    load_metadata_table,
)
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_config import TableConfig
from lakeward.table.timeline.archived import History, find_archived, history_folder
from lakeward.table.timeline.cleans import read_cleans
from lakeward.table.timeline.timeline import Timeline

_NEED_PLAN = frozenset({"clean", "compaction", "logcompaction"})


def read_archive_facts(
    storage: Storage, base_path: str, snapshot: TableSnapshot, history: History, *, clock: Clock
) -> ArchiveFacts:
    """Raises `BrokenFile`, and `NotFound` where an archiver is at work."""
    config, timeline = snapshot.config, snapshot.timeline
    compacted = None
    if has_metadata_table(config):
        metadata = load_metadata_table(storage, base_path, config, timeline, clock=clock, partitions=())
        compacted = latest_compaction(metadata.timeline)
    in_history, incomplete = _by_history(storage, base_path, config, timeline, history)
    return ArchiveFacts(
        is_merge_on_read=config.table_type == "MERGE_ON_READ",
        cleans=read_cleans(storage, base_path, config, timeline),
        has_metadata_table=has_metadata_table(config),
        metadata_compacted=compacted,
        replaced_left=_replaced_left(snapshot),
        uncommitted=_with_instants(snapshot.uncommitted_files),
        in_history=in_history,
        incomplete=incomplete,
    )


def metadata_archive_facts(
    storage: Storage, metadata: MetadataTable, history: History, *, table_begins: str | None
) -> ArchiveFacts:
    """The same of the metadata table's own timeline. Raises `BrokenFile`, and `NotFound` where an archiver is at work.

    Args:
        metadata: with all of its partitions.
        history: the metadata table's.
        table_begins: the first instant that its table's timeline keeps.
    """
    base_path, config, timeline = metadata.base_path, metadata.config, metadata.timeline
    in_history, incomplete = _by_history(storage, base_path, config, timeline, history)
    return ArchiveFacts(
        is_merge_on_read=True,
        cleans=read_cleans(storage, base_path, config, timeline),
        has_metadata_table=True,
        metadata_compacted=latest_compaction(timeline),
        uncommitted=_with_instants(metadata.uncommitted, extension=HFILE),
        in_history=in_history,
        incomplete=incomplete,
        table_begins=table_begins,
    )


def states_of(timeline: Timeline, instant: Instant) -> list[Instant]:
    """All files of an instant."""
    action = instant.comparable_action
    return [each for each in timeline.instants if (each.time, each.comparable_action) == (instant.time, action)]


def _by_history(
    storage: Storage, base_path: str, config: TableConfig, timeline: Timeline, history: History
) -> tuple[frozenset[str], frozenset[str]]:
    """The file names of completed instants that the archive has, too, and of those whose plan is gone."""
    candidates = [instant for instant in timeline.completed if instant.action in GOES]
    in_history = find_archived(storage, history_folder(base_path, config), history, candidates)
    return in_history, frozenset(_incomplete(timeline, candidates)) - in_history


def _with_instants(paths: Iterable[str], *, extension: str = PARQUET) -> list[tuple[str, str]]:
    return [(_instant_of(path, extension), path) for path in paths]


def _incomplete(timeline: Timeline, candidates: list[Instant]) -> Iterator[str]:
    pending: dict[tuple[str, str], set[tuple[str, State]]] = {}
    for each in timeline.instants:
        if each.state is not State.COMPLETED:
            pending.setdefault((each.time, each.comparable_action), set()).add((each.action, each.state))
    for instant in candidates:
        found = pending.get((instant.time, instant.comparable_action), set())
        needs_plan = any(action in _NEED_PLAN for action, _ in found)
        if not found or (needs_plan and all(state is not State.REQUESTED for _, state in found)):
            yield instant.file_name


def _replaced_left(snapshot: TableSnapshot) -> dict[str, int]:
    """Files of replaced groups that are still there; at least one for a group whose slices cannot be told apart."""
    left: Counter[str] = Counter()
    for group in snapshot.replaced_groups:
        slices = group.slices if isinstance(group, FileGroup) else ()
        files = sum((slice_.base_file is not None) + len(slice_.log_files) for slice_ in slices)
        left[snapshot.replaced[group.partition_path, group.file_id]] += max(1, files)
    return dict(left)


def _instant_of(path: str, extension: str) -> str:
    name = path.rpartition("/")[2]
    parsed = parse_any_data_file(name, native=True, extension=extension)
    assert parsed is not None, "it was sorted by its name"
    return parsed.instant
