"""The fast merge against its slow twin, over random slices; and what the twin cannot see: order, counts, refusals."""

import datetime
import itertools
from dataclasses import dataclass, field
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.base.errors import BrokenFile, Unsupported
from lakeward.format.log.change_log import ChangeOperation
from lakeward.merge.hash_merge import HashMerge
from lakeward.merge.logs.log_fold import LogFold
from lakeward.merge.rules.merge_rules import MergeMode, MergeRules, PartialUpdates, RepeatedKeys
from lakeward.merge.rules.ordering_type import integer_fields
from lakeward.merge.rules.partial_rows import with_part
from lakeward.merge.rules.reference import LogRecord, merge_key, merge_rows

SMALL = st.integers(-2, 4)
ORDERINGS = {
    # The column's type; the delete block's wrapper and type; few values, so that ties and late rows are common.
    "int": (pa.int32(), "IntWrapper", pa.int32(), SMALL),
    "long": (pa.int64(), "LongWrapper", pa.int64(), SMALL),
    "float": (pa.float32(), "FloatWrapper", pa.float32(), st.sampled_from([-1.5, -0.0, 0.0, 2.5, float("inf")])),
    "double": (
        pa.float64(),
        "DoubleWrapper",
        pa.float64(),
        st.sampled_from([-1.5, -0.0, 0.0, 2.5, float("-inf"), float("nan")]),
    ),
    "boolean": (pa.bool_(), "BooleanWrapper", pa.bool_(), st.booleans()),
    "string": (
        pa.string(),
        "StringWrapper",
        pa.string(),
        st.sampled_from(["", "a", "é", "\uffff", "\U00010000", "ab"]),
    ),
    "decimal": (
        pa.decimal128(10, 2),
        "DecimalWrapper",
        pa.decimal128(30, 15),
        SMALL.map(lambda number: Decimal(number) / 4),
    ),
    "date": (
        pa.date32(),
        "DateWrapper",
        pa.date32(),
        SMALL.map(lambda number: datetime.date(1970, 1, 1) + datetime.timedelta(days=number)),
    ),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        "LongWrapper",
        pa.int64(),
        SMALL.map(
            lambda number: datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(seconds=number)
        ),
    ),
}
SECOND = {pa.int32(): st.integers(-1, 2), pa.string(): st.sampled_from(["", "a", "b"])}
KEYS = st.sampled_from(["a", "a", "b", "b", "c", "schlüssel", "キー", "", "a" * 40])


def schema_of(kind, second=pa.int32()):  # noqa: B008 - a value
    return pa.schema(
        [
            ("_hoodie_commit_time", pa.string()),
            ("_hoodie_record_key", pa.string()),
            ("_hoodie_file_name", pa.string()),
            ("ts", kind),
            ("no", second),
            ("_hoodie_is_deleted", pa.bool_()),
            ("tags", pa.list_(pa.string())),
        ]
    )


PARTS = tuple(frozenset(schema_of(pa.int32()).names) - lacking for lacking in ({"tags"}, {"_hoodie_is_deleted"}, set()))


@dataclass
class Slice:
    """Rows as dicts: the base, and blocks that are lists of rows (data) or of (key, ordering value) pairs (deletes)."""

    ordering: str
    base: list
    blocks: list
    mode: MergeMode = MergeMode.EVENT_TIME_ORDERING
    ordering_fields: tuple = ("ts",)
    second: pa.DataType = field(default_factory=pa.int32)
    partial: PartialUpdates | None = None
    parts: list = field(default_factory=list)
    """With KEEP_VALUES: the number of each block's columns among `PARTS`, from 1 on; 0 has them all."""
    by_rank: bool = False
    repeated: RepeatedKeys = RepeatedKeys.APART

    @property
    def repeats(self):
        """Whether a key is in several rows of the base."""
        return len({row["_hoodie_record_key"] for row in self.base}) < len(self.base)

    @property
    def rules(self):
        in_part = PARTS if self.partial is PartialUpdates.KEEP_VALUES else ()
        return MergeRules(
            self.mode,
            self.ordering_fields,
            partial_updates=self.partial,
            unavailable="a",
            in_part=in_part,
            by_rank=self.by_rank,
            repeated=self.repeated,
        )

    def has(self, block, name):
        """Whether rows of the block of this number have the column."""
        number = self.parts[block] if self.rules.in_part else 0
        return not number or name in PARTS[number - 1]

    @property
    def schema(self):
        return schema_of(ORDERINGS[self.ordering][0], self.second)


@st.composite
def slices(draw):
    ordering = draw(st.sampled_from(sorted(ORDERINGS)))
    values = ORDERINGS[ordering][3]
    fields = draw(st.sampled_from([("ts",)] * 5 + [()] + [("ts", "no"), ("no", "ts")] * 2))
    second, numbers = draw(st.sampled_from(sorted(SECOND.items(), key=str)))
    deletes = ORDERINGS[ordering][3]
    if len(fields) > 1:
        deletes = st.tuples(*(numbers if name == "no" else deletes for name in fields))
    if draw(st.integers(0, 7)) == 0:
        numbers = st.none() | numbers
    if draw(st.integers(0, 3)) == 0:
        values = st.none() | values
    number = iter(range(10_000))

    def row(key, deleted):
        this = next(number)
        return {
            "_hoodie_commit_time": str(this),
            "_hoodie_record_key": key,
            "_hoodie_file_name": "x",
            "ts": draw(values),
            "no": draw(numbers),
            "_hoodie_is_deleted": deleted,
            "tags": [str(this)] * (this % 3) if this % 5 else None,
        }

    is_unique = draw(st.booleans())
    base = [
        row(key, draw(st.sampled_from([None, False, True])))
        for key in draw(st.lists(KEYS, unique=is_unique, max_size=8))
    ]
    blocks = []
    for _ in range(draw(st.integers(0, 5))):
        keys = draw(st.lists(KEYS, max_size=5))
        if draw(st.booleans()):
            blocks.append([row(key, draw(st.sampled_from([None, False, False, True]))) for key in keys])
        else:
            blocks.append([(key, draw(st.none() | deletes)) for key in keys])
    mode = draw(st.sampled_from([MergeMode.EVENT_TIME_ORDERING] * 3 + [MergeMode.COMMIT_TIME_ORDERING]))
    parts = [draw(st.integers(0, len(PARTS))) for _ in blocks]
    return Slice(ordering, base, blocks, mode, fields, second, parts=parts)


def delete_arrays(block, slice_):
    """Keys, ordering values and classes, as a delete block's reader gives them."""
    kind, wrapper, wrapped, _ = ORDERINGS[slice_.ordering]
    values = [value for _, value in block]
    if len(slice_.ordering_fields) > 1:
        keys = pa.array([key for key, _ in block], pa.string())
        if not any(values):
            return keys, None, ()
        of_second = ("IntWrapper" if slice_.second == pa.int32() else "StringWrapper", slice_.second)
        classes = [of_second if name == "no" else (wrapper, wrapped) for name in slice_.ordering_fields]
        columns = [
            pa.array([value and value[number] for value in values], slice_.schema.field(name).type).cast(
                classes[number][1]
            )
            for number, name in enumerate(slice_.ordering_fields)
        ]
        mask = pa.array([value is None for value in values])
        ordering = pa.StructArray.from_arrays(columns, ["0", "1"], mask=mask)
        return keys, ordering, tuple(each for each, _ in classes)
    if pa.types.is_int32(kind):
        values = [None if value == 0 else value for value in values]  # so does the reader of delete blocks
    ordering_values = pa.array(values, kind).cast(wrapped)
    all_default = ordering_values.null_count == len(values)
    keys = pa.array([key for key, _ in block], pa.string())
    return keys, None if all_default else ordering_values, () if all_default else (wrapper,)


def append_logs(slice_, logs, *, log_rows=2, **more):
    """Append the blocks of a slice to a fold, or to records."""
    for number, block in enumerate(slice_.blocks):
        source = f"block {number}"
        if block and isinstance(block[0], tuple):
            keys, ordering, wrappers = delete_arrays(block, slice_)
            logs.append_deletes(keys, ordering, wrappers=wrappers, source=source)
            continue
        rows = [{name: value for name, value in row.items() if slice_.has(number, name)} for row in block]
        part = slice_.parts[number] if slice_.rules.in_part else 0
        whole = with_part(pa.RecordBatch.from_pylist(rows, slice_.schema), part, slice_.rules)
        for start in range(0, len(block), log_rows):
            logs.append_data(whole.slice(start, log_rows), source=source, **more)
    logs.finish()


def base_batches(slice_, base_rows):
    whole = with_part(pa.RecordBatch.from_pylist(slice_.base, slice_.schema), 0, slice_.rules)
    return [whole.slice(start, base_rows) for start in range(0, len(slice_.base), base_rows)]


def assert_shown(shown, slice_, rows, merge):
    """What was reported turns the base's rows into the merged ones, key by key, and is as much as was counted."""
    counted = [merge.inserted, merge.updated, merge.deleted]
    assert [sum(len(each.keys) for each in shown if each.operation is kind) for kind in ChangeOperation] == counted
    if slice_.repeats:
        return  # which of a key's rows was changed, changes do not say
    base = pa.RecordBatch.from_pylist(slice_.base, slice_.schema).to_pylist()
    before = {row["_hoodie_record_key"]: row for row in base}
    after = {row["_hoodie_record_key"]: row for row in rows}
    found = {}
    for changes in shown:
        keys = changes.keys.to_pylist()
        sides = [
            dict.fromkeys(keys) if batch is None else dict(zip(keys, batch.to_pylist(), strict=True))
            for batch in (changes.before, changes.after)
        ]
        assert not found.keys() & set(keys)
        found |= {key: (changes.operation, *(side[key] for side in sides)) for key in keys}
    for key, (_, old, new) in found.items():
        assert texts([old or {}, new or {}]) == texts([before.get(key, {}), after.get(key, {})])
    for key in before.keys() ^ after.keys():
        assert key in found
    for key in before.keys() & after.keys() - found.keys():
        assert texts([before[key]]) == texts([after[key]])
    counts = [sum(operation is each for operation, _, _ in found.values()) for each in ChangeOperation]
    assert counts == [merge.inserted, merge.updated, merge.deleted]


def fast_merge(slice_, *, base_rows=2, log_rows=2):
    logs = LogFold(slice_.schema, slice_.rules, memory_bytes=10**9)
    append_logs(slice_, logs, log_rows=log_rows)
    shown = []
    merge = HashMerge(logs, slice_.rules, base_name="base.parquet", on_changes=shown.append)
    out = list(merge.batches(base_batches(slice_, base_rows)))
    assert_shown(shown, slice_, [row for batch in out for row in batch.to_pylist()], merge)
    keys = {row["_hoodie_record_key"] for row in slice_.base}
    of_base = [batch for batch in out if batch["_hoodie_record_key"][0].as_py() in keys]
    assert all(batch.num_rows <= base_rows for batch in of_base), "more than one base batch at once"
    return [row for batch in out for row in batch.to_pylist()], merge, logs


def slow_merge(slice_):
    """The rows in the order they are due: the base's, then first appearances in the logs."""
    records: dict[str, list[LogRecord]] = {}
    for number, block in enumerate(slice_.blocks):
        for record in block:
            if isinstance(record, tuple):
                records.setdefault(record[0], []).append(LogRecord(None, record[1]))
            else:
                row = {name: value for name, value in record.items() if slice_.has(number, name)}
                records.setdefault(record["_hoodie_record_key"], []).append(LogRecord(row))
    base: dict[str, list] = {}
    for row in slice_.base:
        base.setdefault(row["_hoodie_record_key"], []).append(row)
    integers = integer_fields(slice_.rules, slice_.schema)
    merged = {
        key: merge_rows(base.get(key, []), records.get(key, []), slice_.rules, integers=integers)
        for key in [*base, *(key for key in records if key not in base)]
    }
    rows = []
    met = set()
    for row in slice_.base:
        key = row["_hoodie_record_key"]
        if key not in met:
            met.add(key)
            # The result of the first row stands in its place; the others are the same objects, in their places.
            rows += [each for each in merged[key][:1] if not any(each is other for other in base[key][1:])]
            if slice_.repeated is RepeatedKeys.VERSIONS:
                rows += [each for each in merged[key] if any(each is other for other in base[key][1:])]
        elif slice_.repeated is RepeatedKeys.APART:
            rows.append(row)
    return rows + [row for key in merged if key not in base for row in merged[key]]


def texts(rows):
    """Rows as text, in which NaN equals NaN and -0.0 differs from 0.0; types are normalised by Arrow."""
    return [repr(sorted(row.items())) for row in rows]


@given(slices(), st.integers(1, 4), st.integers(1, 4))
def test_fast_and_slow_agree(slice_, base_rows, log_rows):
    """Both give the same rows in the same order, or both refuse, of any slice, in batches of any size.

    Keeps 1 of merge/logs/log_fold; Keeps 3 and 4 of merge/hash_merge.
    """
    try:
        expected = slow_merge(slice_)
    except Unsupported:
        with pytest.raises(Unsupported):
            fast_merge(slice_, base_rows=base_rows, log_rows=log_rows)
        return
    rows, merge, logs = fast_merge(slice_, base_rows=base_rows, log_rows=log_rows)
    normal = pa.RecordBatch.from_pylist(expected, slice_.schema).to_pylist()
    assert texts(rows) == texts(normal)
    base_keys = {row["_hoodie_record_key"] for row in slice_.base}
    kept = {row["_hoodie_record_key"] for row in rows}
    assert merge.base_rows == len(slice_.base)
    assert merge.rows == len(rows) == merge.base_rows + merge.inserted - merge.deleted
    assert merge.inserted == len(kept - base_keys)
    if not slice_.repeats:
        assert merge.deleted == len(base_keys - kept)
    assert merge.updated == sum(
        row not in slice_.base for row in normal if row["_hoodie_record_key"] in base_keys
    ) or any(row["ts"] != row["ts"] for row in slice_.base)
    assert logs.records == sum(len(block) for block in slice_.blocks)


def data(key, ts, **more):
    row = {"_hoodie_commit_time": "1", "_hoodie_file_name": "x", "_hoodie_is_deleted": None, "tags": None, "no": None}
    return {**row, "_hoodie_record_key": key, "ts": ts, **more}


def merged(slice_, **more):
    return [(row["_hoodie_record_key"], row["ts"]) for row in fast_merge(slice_, **more)[0]]


def test_base_order_stays_and_inserts_follow():
    """Rows are updated where they were; new keys come last, in the order of their first appearance."""
    slice_ = Slice(
        "long",
        base=[data(key, 1) for key in "dacb"],
        blocks=[[("y", None)], [data("z", 2), data("a", 2), data("y", 2)], [("c", None)], [data("z", 3)]],
    )
    assert merged(slice_) == [("d", 1), ("a", 2), ("b", 1), ("y", 2), ("z", 3)]


def test_commit_time_and_sequence_number_of_the_winner_stay():
    """Meta columns come from the winning record, all but the file name, which the writer sets."""
    slice_ = Slice("long", [data("a", 1, _hoodie_commit_time="1")], [[data("a", 2, _hoodie_commit_time="2")]])
    assert fast_merge(slice_)[0][0]["_hoodie_commit_time"] == "2"


@pytest.mark.parametrize("base_rows", [1, 2, 6])
def test_of_rows_with_one_key_the_first_meets_the_logs(base_rows):
    """The others stay as they are, where they are, also behind a delete; so do all of a key that no log has.

    Keeps 2 of merge/hash_merge.
    """
    base = [data(key, ts) for key, ts in [("a", 5), ("b", 1), ("c", 5), ("a", 3), ("b", 2), ("c", 9)]]
    slice_ = Slice("long", base, [[data("a", 6)], [("c", None)]])
    assert merged(slice_, base_rows=base_rows) == [("a", 6), ("b", 1), ("a", 3), ("b", 2), ("c", 9)]


def test_large_log_rows_come_out_in_several_batches(monkeypatch):
    """One base batch whose log rows are large is rebuilt in parts, and nothing else changes."""
    slice_ = Slice("long", [data(key, 1) for key in "abcdef"], [[data(key, 2) for key in "acdxfy"], [("b", None)]])
    expected = merged(slice_, base_rows=6)
    monkeypatch.setattr(LogFold, "rows_at_once_max", 2)
    assert merged(slice_, base_rows=6) == expected


def test_records_without_key_are_refused():
    """A null record key cannot be merged, wherever it is."""
    with pytest.raises(BrokenFile, match="block 0"):
        merged(Slice("long", [], [[data(None, 1)]]))
    with pytest.raises(BrokenFile, match=r"base\.parquet"):
        merged(Slice("long", [data(None, 1)], []))
    with pytest.raises(BrokenFile, match="block 0"):
        merged(Slice("long", [], [[(None, 1)]]))


@pytest.mark.parametrize("ordering", ["int", "long", "string", "double"])
@pytest.mark.parametrize("mode", MergeMode)
def test_every_short_history(ordering, mode):
    """All histories of up to three log records over a base row or none, of one key each, are merged in one go.

    Keeps 1 of merge/rules/winner; Keeps 3 of merge/logs/log_fold.
    """
    values = {"string": ["", "a", "b"], "double": [-1.0, 0.0, 1.0]}.get(ordering, [-1, 0, 1])
    records = [(kind, ts) for kind in ("data", "column delete", "block delete") for ts in (None, *values)]
    bases = [None, *((ts,) for ts in (None, *values))]
    histories = [history for length in range(4) for history in itertools.product(records, repeat=length)]
    slice_ = Slice(ordering, [], [[] for _ in range(6)], mode)
    integers = integer_fields(slice_.rules, slice_.schema)
    expected = []
    for number, (base, history) in enumerate(itertools.product(bases, histories)):
        key = f"key {number}"
        base_row = None if base is None else data(key, base[0], _hoodie_commit_time="base")
        rows = [
            data(key, ts, _hoodie_is_deleted=kind == "column delete", _hoodie_commit_time=str(step))
            for step, (kind, ts) in enumerate(history)
        ]
        logs = [
            LogRecord(None, ts) if kind == "block delete" else LogRecord(row)
            for (kind, ts), row in zip(history, rows, strict=True)
        ]
        try:
            winner = merge_key(base_row, logs, slice_.rules, integers=integers)
        except Unsupported:
            continue  # refused as a whole; other tests look at that
        expected += [winner] if winner is not None else []
        slice_.base += [base_row] if base_row is not None else []
        for step, (kind, ts) in enumerate(history):
            # Per step one data block and one delete block; every key is in one of them.
            if kind == "block delete":
                slice_.blocks[2 * step + 1].append((key, ts))
            else:
                slice_.blocks[2 * step].append(rows[step])

    found, _, _ = fast_merge(slice_, base_rows=1_000, log_rows=1_000)

    def by_key(rows):
        return {row["_hoodie_record_key"]: (row["_hoodie_commit_time"], row["ts"]) for row in rows}

    assert len(expected) > 2_000
    assert by_key(found) == by_key(expected)
