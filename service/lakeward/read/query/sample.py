"""Watch a few keys of a merge while it streams by, so that they can be merged again another way.

Keys are chosen by their hash: those with the smallest ones. A threshold is lowered whenever too many keys are below it,
so the choice does not depend on order or place, and the same key is chosen in the logs and in the base file.

Where base and logs come by at once, the keys of the logs are looked at before all rows, and records are ordered by the
ranks of their files.

Touches: nothing.
Keeps:   1. of every sampled key all log records are kept, in merge order, and the base records, in the file's order;
         2. at most `LOG_KEYS_MAX` keys of the logs and `BASE_KEYS_MAX` keys that only the base has;
         3. a key with more than `RECORDS_MAX` log records, or with more than `KEY_BYTES_MAX` of rows in logs and base
            file together, is in no sample.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.merge.logs.key_index import hash_keys
from lakeward.merge.rules.merge_rules import RECORD_KEY_FIELD
from lakeward.merge.rules.reference import LogRecord, Row

LOG_KEYS_MAX = 48
BASE_KEYS_MAX = 16
RECORDS_MAX = 1_000
KEY_BYTES_MAX = 256 * 1024
"""Rows of the sample are Python's values, several times as large as Arrow's, and not in the budget of the merge."""
_EVERYTHING = 2**64 - 1

Places = npt.NDArray[np.int64]
"""Places of rows in the base file."""


@dataclass(slots=True)
class SampledKey:
    """What the inputs of the merge say about one key."""

    base: list[Row] = field(default_factory=list)
    """More than one where the base file has the key in several rows."""
    logs: list[LogRecord] = field(default_factory=list)
    ranks: list[int] = field(default_factory=list)
    """The rank of each log record."""

    def add(self, record: LogRecord, rank: int) -> None:
        """Behind those of the same rank."""
        at = bisect_right(self.ranks, rank)
        self.ranks.insert(at, rank)
        self.logs.insert(at, record)

    places: list[int] | None = None
    """The places of the base records, where those of the logs name places."""


class SampleTap:
    def __init__(self, *, passed_over: npt.NDArray[np.uint64] | None = None) -> None:
        """
        Args:
            passed_over: hashes of the keys that another tap passed over; then these are, and no others.
        """
        self._judges = passed_over is None
        self._forget()
        self.passed_over = np.zeros(0, dtype=np.uint64) if passed_over is None else passed_over
        """Hashes of keys with too many or too large records."""

    def begin_again(self) -> None:
        """The slice is read once more, from its first log on."""
        assert self._judges
        self._forget()
        self.passed_over = np.zeros(0, dtype=np.uint64)

    def _forget(self) -> None:
        self._from_logs: dict[str, SampledKey] = {}
        self._base_only: dict[str, SampledKey] = {}
        self._hashes: dict[str, int] = {}
        self._log_threshold = _EVERYTHING
        self._base_threshold = _EVERYTHING
        self._log_hashes: npt.NDArray[np.uint64] | None = None
        self._bytes: dict[str, int] = {}

    @property
    def keys(self) -> dict[str, SampledKey]:
        """The sample: complete when the merged slice is exhausted."""
        return {**self._from_logs, **self._base_only}

    @property
    def log_threshold(self) -> int:
        """The sample has every key of the logs with a hash up to this one, but for those that were passed over."""
        return self._log_threshold

    def log_keys_up_to(self, threshold: int) -> dict[str, SampledKey]:
        return {key: inputs for key, inputs in self._from_logs.items() if self._hashes[key] <= threshold}

    def see_log_keys(self, keys: pa.Array) -> None:
        """Choose among the keys of logs whose records come later."""
        self._chosen_of_logs(keys)

    def settle(self) -> None:
        """All keys of the logs were seen; records, and base rows, may now come in any order."""
        if self._log_hashes is None:
            self._log_hashes = np.array(sorted(self._hashes.values()), dtype=np.uint64)
            # Below the logs' threshold every key of the logs is in the sample: what is not there, only the base has.
            self._base_threshold = self._log_threshold

    def see_log_data(
        self, batch: pa.RecordBatch, *, lacking: Collection[str] = (), rank: int = 0, places: Places | None = None
    ) -> None:
        """
        Args:
            lacking: columns that the rows were written without.
            rank: the place of their log among the others, where the logs do not come one after the other.
            places: those in the base file that the rows name.
        """
        chosen = self._chosen_of_logs(batch.column(RECORD_KEY_FIELD))
        kept = {place for place, _ in chosen if self._keeps(batch, place)}
        chosen = [(place, key) for place, key in chosen if place in kept and key in self._from_logs]
        for (at, key), row in zip(chosen, _rows_at(batch, [place for place, _ in chosen]), strict=True):
            has = {name: value for name, value in row.items() if name not in lacking} if lacking else row
            place = None if places is None else int(places[at])
            self._from_logs[key].add(LogRecord(has, position=place), rank)

    def see_log_deletes(
        self, keys: pa.Array, ordering: pa.Array | None, *, rank: int = 0, places: Places | None = None
    ) -> None:
        """`ordering` as values of the ordering column, null or None where the delete has the default."""
        chosen = self._chosen_of_logs(keys)
        rows = pa.array([row for row, _ in chosen], pa.int64())
        values = [None] * len(chosen) if ordering is None else _plain(ordering.take(rows))
        values = [tuple(value.values()) if isinstance(value, dict) else value for value in values]
        for (at, key), value in zip(chosen, values, strict=True):
            place = None if places is None else int(places[at])
            self._from_logs[key].add(LogRecord(None, value, place), rank)

    def see_base(self, batch: pa.RecordBatch, *, first_place: int | None = None) -> None:
        """Only after all log records, or keys: only then it is known which keys the logs have.

        Args:
            first_place: the place of the first row in the file, where log records name places.
        """
        self.settle()
        assert self._log_hashes is not None
        hashes = hash_keys(batch.column(RECORD_KEY_FIELD))
        places = np.flatnonzero(hashes <= np.uint64(self._log_threshold))
        hashes = hashes[places]
        of_logs = np.isin(hashes, self._log_hashes)
        known = [int(place) for place in places[of_logs] if self._keeps(batch, int(place))]
        others = ~(of_logs | np.isin(hashes, self.passed_over) | (hashes == np.uint64(_EVERYTHING)))
        places, hashes = places[others], hashes[others]
        self._base_threshold = _lowered(self._base_threshold, hashes, BASE_KEYS_MAX)
        low = hashes <= np.uint64(self._base_threshold)
        new = {
            int(place): int(number)
            for place, number in zip(places[low], hashes[low], strict=True)
            if self._keeps_base_only(batch, int(place), int(number))
        }
        chosen = [*known, *new]
        for place, row in zip(chosen, _rows_at(batch, chosen), strict=True):
            key = str(row[RECORD_KEY_FIELD])
            if key in self._from_logs:
                found = self._from_logs[key]
            elif place not in new or new[place] in self.passed_over:
                continue
            else:
                found = self._base_only.setdefault(key, SampledKey())
                self._hashes[key] = new[place]
            found.base.append(row)
            if first_place is not None:
                found.places = [*(found.places or ()), first_place + place]
        self._base_threshold = self._shrunk(self._base_only, self._base_threshold, BASE_KEYS_MAX)

    def _keeps(self, batch: pa.RecordBatch, place: int) -> bool:
        """Whether the key of this row is in the sample still, now that it has this row, too."""
        key = batch.column(RECORD_KEY_FIELD)[place].as_py()
        if key not in self._from_logs:
            return False
        self._bytes[key] = self._bytes.get(key, 0) + _row_bytes(batch, place)
        if not self._judges or self._bytes[key] <= KEY_BYTES_MAX:
            return True
        self.passed_over = np.append(self.passed_over, np.uint64(self._hashes[key]))
        del self._from_logs[key]
        del self._hashes[key]
        return False

    def _keeps_base_only(self, batch: pa.RecordBatch, place: int, number: int) -> bool:
        """Whether the key of this row, which no log has, can be in the sample."""
        key = batch.column(RECORD_KEY_FIELD)[place].as_py()
        self._bytes[key] = self._bytes.get(key, 0) + _row_bytes(batch, place)
        if self._bytes[key] <= KEY_BYTES_MAX:
            return True
        self.passed_over = np.append(self.passed_over, np.uint64(number))
        if self._base_only.pop(key, None) is not None:
            del self._hashes[key]
        return False

    def _chosen_of_logs(self, keys: pa.Array) -> list[tuple[int, str]]:
        """(row, key) of the keys that are in the sample now, be it for the first time."""
        hashes = hash_keys(keys)
        places = np.flatnonzero(hashes <= np.uint64(self._log_threshold))
        if self._log_hashes is not None:
            chosen = [(int(row), keys[int(row)].as_py()) for row in places]
            return [(row, key) for row, key in chosen if key in self._from_logs]
        self._pass_over_hot(hashes[places])
        places = places[~(np.isin(hashes[places], self.passed_over) | (hashes[places] == np.uint64(_EVERYTHING)))]
        self._log_threshold = _lowered(self._log_threshold, hashes[places], LOG_KEYS_MAX)
        below = places[hashes[places] <= np.uint64(self._log_threshold)]
        chosen = [(int(row), keys[int(row)].as_py()) for row in below]
        for row, key in chosen:
            if key not in self._from_logs:
                self._from_logs[key] = SampledKey()
                self._hashes[key] = int(hashes[row])
        self._log_threshold = self._shrunk(self._from_logs, self._log_threshold, LOG_KEYS_MAX)
        return [(row, key) for row, key in chosen if key in self._from_logs]

    def _pass_over_hot(self, hashes: npt.NDArray[np.uint64]) -> None:
        """Let go of keys that have too many records with those of this batch, whose low hashes these are."""
        if not self._judges:
            return
        candidates, counts = np.unique(hashes, return_counts=True)
        known = {self._hashes[key]: key for key in self._from_logs}
        for number, count in zip(candidates.tolist(), counts.tolist(), strict=True):
            key = known.get(number)
            if count + (0 if key is None else len(self._from_logs[key].logs)) > RECORDS_MAX:
                self.passed_over = np.append(self.passed_over, np.uint64(number))
                if key is not None:
                    del self._from_logs[key]
                    del self._hashes[key]

    def _shrunk(self, sample: dict[str, SampledKey], threshold: int, most: int) -> int:
        """The threshold that leaves at most `most` keys; those above it are dropped."""
        if len(sample) > most:
            threshold = sorted(self._hashes[key] for key in sample)[most - 1]
            for key in [key for key in sample if self._hashes[key] > threshold]:
                del sample[key]
                del self._hashes[key]
        return threshold


def _lowered(threshold: int, hashes: npt.NDArray[np.uint64], most: int) -> int:
    """The threshold, lowered to what one batch alone says, so that Python looks at few of its rows."""
    below = np.unique(hashes[hashes <= np.uint64(threshold)])
    return int(below[most - 1]) if len(below) > most else threshold


def common_samples(one: SampleTap, other: SampleTap) -> tuple[dict[str, SampledKey], dict[str, SampledKey]]:
    """What two taps that passed over the same keys say about the keys of logs that both chose among."""
    threshold = min(one.log_threshold, other.log_threshold)
    return one.log_keys_up_to(threshold), other.log_keys_up_to(threshold)


def _row_bytes(batch: pa.RecordBatch, place: int) -> int:
    columns = batch.slice(place, 1).columns
    # A slice counts all of its dictionary.
    plain = [column.dictionary_decode() if pa.types.is_dictionary(column.type) else column for column in columns]
    return sum(int(column.nbytes) for column in plain)


def _rows_at(batch: pa.RecordBatch, places: Sequence[int]) -> list[dict[str, object]]:
    return plain_rows(batch.take(pa.array(places, pa.int64()))) if len(places) else []


def plain_rows(batch: pa.RecordBatch) -> list[dict[str, object]]:
    """The rows as Python values that compare; points in time as integers, since Python's own end in the year 9999."""
    columns = [_plain(column) for column in batch.columns]
    return [dict(zip(batch.schema.names, values, strict=True)) for values in zip(*columns, strict=True)]


def pick_rows(batch: pa.RecordBatch, keys: pa.Array) -> list[dict[str, object]]:
    """The rows of a batch that have one of the keys, as `plain_rows`."""
    found = pc.is_in(batch.column(RECORD_KEY_FIELD), value_set=keys)
    return plain_rows(batch.filter(found))


def _plain(array: pa.Array) -> list[object]:
    kind = _plain_type(array.type)
    values: list[object] = (array if array.type == kind else array.cast(kind)).to_pylist()
    return values


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind) or pa.types.is_date64(kind):
        return pa.int64()
    if pa.types.is_date32(kind):
        return pa.int32()
    if pa.types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(entry.name, _plain_type(entry.type)) for entry in kind])
    if pa.types.is_map(kind):
        return pa.map_(_plain_type(kind.key_type), kind.item_field.with_type(_plain_type(kind.item_type)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_plain_type(kind.value_type)))
    return kind
