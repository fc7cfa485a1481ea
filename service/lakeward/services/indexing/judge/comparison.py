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
from lakeward.index.placed_keys import PLACED_KEYS, JudgedIndex, judge_by_rows, not_in
from lakeward.services.indexing.judge.cost import IndexCost
from lakeward.services.indexing.judge.row_sample import sample_rows
from lakeward.storage.metered import MeteredStorage
from lakeward.storage.storage import Storage
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot

_ABSENT = "~absent"


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
    judged: JudgedIndex
    """What is wrong with it, of the keys whose rows are known."""
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
    places: pa.Table
    """The places that the index has for keys, in `PLACED_KEYS`, each once."""
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
    differing = pa.concat_tables([not_in(one.places, other.places), not_in(other.places, one.places)])
    differs = pc.unique(differing.column(RECORD_KEY)).sort()
    known = pc.unique(asked.rows.column(RECORD_KEY))
    doubtful = _without(pa.concat_arrays([differs, asked.absent.cast(pa.string())]), known)
    truth = judge_by_rows(storage, snapshot, _once(_of_keys(pa.concat_tables([one.places, other.places]), doubtful)))
    # Of a key of which one place cannot be known, nothing is.
    decided = pa.concat_arrays([known, _without(doubtful, pc.unique(truth.unknown.column(RECORD_KEY)))])
    rows = _once(pa.concat_tables([asked.rows, _of_keys(truth.there, decided)]))
    named = differs.slice(0, differences_max)
    said_first, said_second, of_rows = (_by_key(_of_keys(each, named)) for each in (one.places, other.places, rows))
    return Comparison(
        len(keys),
        len(asked.absent),
        len(keys) - len(differs),
        _answers(one, rows, decided),
        _answers(other, rows, decided),
        tuple(
            Difference(key, said_first.get(key, ()), said_second.get(key, ()), of_rows.get(key, ()))
            for key in named.to_pylist()
        ),
        truth.notes,
        len(_without(differs, decided)),
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
    return _Replay(candidate, _once(found), opened - began, ended - opened, meter)


def _once(placed: pa.Table) -> pa.Table:
    """Each place of each key once."""
    names = PLACED_KEYS.names
    return placed.select(names).group_by(names, use_threads=False).aggregate([]).cast(PLACED_KEYS)


def _of_keys(placed: pa.Table, keys: pa.Array) -> pa.Table:
    return placed.filter(pc.is_in(placed.column(RECORD_KEY), value_set=keys))


def _without(keys: pa.Array, others: pa.Array) -> pa.Array:
    """The keys that are not among the others, each once."""
    return pc.unique(keys.filter(pc.invert(pc.is_in(keys, value_set=others))))


def _by_key(placed: pa.Table) -> Mapping[str, tuple[GroupId, ...]]:
    places: dict[str, list[GroupId]] = {}
    for row in placed.to_pylist():
        places.setdefault(row[RECORD_KEY], []).append((row[PARTITION_PATH], row[FILE_ID]))
    return {key: tuple(sorted(each)) for key, each in places.items()}


def _answers(replay: _Replay, rows: pa.Table, decided: pa.Array) -> Answers:
    missed = not_in(rows, replay.places)
    return Answers(
        replay.candidate.name,
        pc.count_distinct(replay.places.column(RECORD_KEY)).as_py(),
        replay.places.num_rows,
        JudgedIndex(
            missed,
            not_in(_of_keys(replay.places, decided), rows),
            _of_keys(replay.places, pc.unique(missed.column(RECORD_KEY))),
        ),
        replay.open_seconds,
        replay.seconds,
        replay.meter.files_opened,
        replay.meter.bytes_read,
        replay.candidate.stored_bytes,
        replay.candidate.cost,
    )
