"""Two indexes of a table asked for the same keys: where answers are alike, which are right, and what each takes.

    keys of rows      drawn from the table: where each is, is known
    keys of a file    where they are, is asked of the file groups that either index names
    absent keys       made of keys that are there: what is found for them is judged by the rows, too

A location that no row is behind is false; a row that an index does not locate is missed. Where both indexes say the
same of a key whose place is not known, nothing is judged: `services/indexing/judge/check` is for that.

Touches: reads the table and the indexes; writes nothing and takes no lock.
Keeps:   equal tables, numbers and seeds ask for the same keys.
Memory:  the keys and their locations, and what merging a slice needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.base.clock import Clock
from lakeward.index.index import Index, record_locations
from lakeward.index.location import FILE_ID, PARTITION_PATH, RECORD_KEY
from lakeward.index.placed_keys import PLACED_KEYS, judge_by_rows, place_keys
from lakeward.services.indexing.judge.cost import IndexCost
from lakeward.services.indexing.judge.row_sample import sample_rows
from lakeward.storage.metered import MeteredStorage
from lakeward.storage.storage import Storage
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot

_ABSENT = "~absent"
Places = Mapping[str, frozenset[GroupId]]


@dataclass(frozen=True, slots=True)
class Asked:
    """The keys that both are asked for."""

    rows: pa.Table
    """Rows whose places are known, in `PLACED_KEYS`."""
    others: pa.Array
    """Keys of which nothing is known."""
    absent: pa.Array
    """Keys that are in all likelihood in no row."""

    @property
    def keys(self) -> pa.Array:
        parts = [self.rows.column(RECORD_KEY).combine_chunks(), self.others, self.absent]
        return pa.concat_arrays([part.cast(pa.string()) for part in parts]).unique()


@dataclass(frozen=True, slots=True)
class Answers:
    """What one of the indexes said, and what that took."""

    name: str
    keys_found: int
    locations: int
    false_locations: int
    missed: int
    open_seconds: float
    seconds: float
    files_opened: int
    bytes_read: int
    """Bytes of files while keys were looked up, footers and heads included; opening the index is not."""
    stored_bytes: int | None
    """What is stored for the index alone."""
    cost: IndexCost | None
    """What building it and keeping it up to date takes."""


@dataclass(frozen=True, slots=True)
class Difference:
    key: str
    first: tuple[GroupId, ...]
    second: tuple[GroupId, ...]
    rows: tuple[GroupId, ...]
    """The places of a row of the key, of all that are known or were said."""


@dataclass(frozen=True, slots=True)
class Comparison:
    keys: int
    absent: int
    """How many of them were made up."""
    equal: int
    """Keys that both put in the same places, or in none."""
    first: Answers
    second: Answers
    differences: tuple[Difference, ...] = ()
    """The first of the keys that they put in different places."""
    notes: tuple[str, ...] = ()
    unjudged: int = 0
    """How many of the keys that differ no row can decide."""

    @property
    def differing(self) -> int:
        return self.keys - self.equal


def draw_keys(
    storage: Storage,
    snapshot: TableSnapshot,
    *,
    number: int,
    absent: int,
    seed: int,
    on_slice: Callable[[int, int], None] = lambda done, of: None,
) -> Asked:
    """Keys of rows that are drawn from the table, and made-up ones beside them."""
    rows = sample_rows(storage, snapshot, number, seed, with_logs=True, on_slice=on_slice).rows
    return Asked(rows, pa.array([], pa.string()), _made_up(rows.column(RECORD_KEY), absent))


def given_keys(keys: pa.Array, *, absent: int) -> Asked:
    """The operator's keys, and made-up ones beside them."""
    return Asked(PLACED_KEYS.empty_table(), keys, _made_up(keys, absent))


def _made_up(keys: pa.Array | pa.ChunkedArray, number: int) -> pa.Array:
    taken = keys.slice(0, number)
    made = pc.binary_join_element_wise(taken, pa.scalar(_ABSENT), "")
    return made.combine_chunks() if isinstance(made, pa.ChunkedArray) else made


@dataclass(frozen=True, slots=True)
class ComparedIndex:
    """One of the two, which is opened when it is its turn."""

    name: str
    open: Callable[[Storage], Index]
    stored_bytes: int | None = None
    cost: IndexCost | None = None


@dataclass(frozen=True, slots=True)
class _Replay:
    candidate: ComparedIndex
    places: Places
    open_seconds: float
    seconds: float
    meter: MeteredStorage


def compare_indexes(
    storage: Storage,
    snapshot: TableSnapshot,
    first: ComparedIndex,
    second: ComparedIndex,
    asked: Asked,
    *,
    clock: Clock,
    partitions: Iterable[str] | None = None,
    differences_max: int = 100,
    on_part: Callable[[int, int], None] = lambda done, of: None,
) -> Comparison:
    """Raises what opening and looking up raise.

    Args:
        partitions: where an index that is not over all of the table looks; None: everywhere.
        on_part: called before each part of an index how many were looked into, and of how many.
    """
    keys, wanted = asked.keys, None if partitions is None else sorted(partitions)
    one, other = (_replayed(storage, each, keys, wanted, clock, on_part) for each in (first, second))
    known: dict[str, set[GroupId]] = {}
    for row in asked.rows.to_pylist():
        known.setdefault(row[RECORD_KEY], set()).add((row[PARTITION_PATH], row[FILE_ID]))
    differing = [key for key in keys.to_pylist() if _of(one, key) != _of(other, key)]
    doubtful = {*differing, *asked.absent.to_pylist()} - known.keys()
    judged, notes = _rows_of(storage, snapshot, {key: _of(one, key) | _of(other, key) for key in doubtful})
    rows = {key: frozenset(places) for key, places in known.items()} | judged
    named = [
        Difference(
            key,
            tuple(sorted(_of(one, key))),
            tuple(sorted(_of(other, key))),
            tuple(sorted(rows.get(key, ()))),
        )
        for key in sorted(differing)[:differences_max]
    ]
    return Comparison(
        len(keys),
        len(asked.absent),
        len(keys) - len(differing),
        _answers(one, rows),
        _answers(other, rows),
        tuple(named),
        notes,
        sum(key not in rows for key in differing),
    )


def _replayed(
    storage: Storage,
    candidate: ComparedIndex,
    keys: pa.Array,
    partitions: list[str] | None,
    clock: Clock,
    on_part: Callable[[int, int], None],
) -> _Replay:
    began = clock.monotonic()
    index = candidate.open(storage)
    opened = clock.monotonic()
    meter = MeteredStorage(storage)
    found = record_locations(meter, index, keys, partitions, on_part=on_part)
    ended = clock.monotonic()
    places: dict[str, set[GroupId]] = {}
    for key, path, file_id in zip(*(found.column(name).to_pylist() for name in PLACED_KEYS.names), strict=True):
        places.setdefault(key, set()).add((path, file_id))
    frozen = {key: frozenset(each) for key, each in places.items()}
    return _Replay(candidate, frozen, opened - began, ended - opened, meter)


def _of(replay: _Replay, key: str) -> frozenset[GroupId]:
    return replay.places.get(key, frozenset())


def _rows_of(
    storage: Storage, snapshot: TableSnapshot, said: Places
) -> tuple[dict[str, frozenset[GroupId]], tuple[str, ...]]:
    """Which of the places that were said of a key have a row of it, and what is not known. A key of which a place
    cannot be known is left out."""
    placed: dict[GroupId, list[str]] = {}
    for key, groups in said.items():
        for group in groups:
            placed.setdefault(group, []).append(key)
    truth = judge_by_rows(storage, snapshot, place_keys(placed))
    unknown = set(truth.unknown.column(RECORD_KEY).to_pylist())
    found: dict[str, set[GroupId]] = {key: set() for key in said.keys() - unknown}
    for row in truth.there.to_pylist():
        if row[RECORD_KEY] in found:
            found[row[RECORD_KEY]].add((row[PARTITION_PATH], row[FILE_ID]))
    return {key: frozenset(groups) for key, groups in found.items()}, truth.notes


def _answers(replay: _Replay, rows: Places) -> Answers:
    return Answers(
        replay.candidate.name,
        len(replay.places),
        sum(map(len, replay.places.values())),
        sum(len(_of(replay, key) - groups) for key, groups in rows.items()),
        sum(len(groups - _of(replay, key)) for key, groups in rows.items()),
        replay.open_seconds,
        replay.seconds,
        replay.meter.files_opened,
        replay.meter.bytes_read,
        replay.candidate.stored_bytes,
        replay.candidate.cost,
    )
