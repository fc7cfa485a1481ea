import datetime
import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.merge.digest import Digest, hash_again, with_hashes

TREE = pa.struct(
    [
        ("n", pa.int32()),
        ("tags", pa.list_(pa.string())),
        ("inner", pa.struct([("x", pa.float64()), ("y", pa.map_(pa.string(), pa.int64()))])),
    ]
)
VALUES = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-128, 127),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
    pa.string(): st.text(max_size=12),
    pa.binary(): st.binary(max_size=12),
    pa.binary(3): st.binary(min_size=3, max_size=3),
    pa.decimal128(12, 3): st.integers(-(10**11), 10**11).map(lambda unscaled: Decimal(unscaled) / 1000),
    pa.date32(): st.dates(),
    pa.timestamp("us", "UTC"): st.datetimes(min_value=datetime.datetime(1900, 1, 1)),
    pa.list_(pa.string()): st.lists(st.none() | st.text(max_size=3), max_size=3),
    pa.map_(pa.string(), pa.int32()): st.dictionaries(
        st.text(max_size=2), st.none() | st.integers(0, 9), max_size=3
    ).map(lambda entries: list(entries.items())),
    TREE: st.fixed_dictionaries(
        {
            "n": st.none() | st.integers(0, 3),
            "tags": st.none() | st.lists(st.text(max_size=2), max_size=2),
            "inner": st.none() | st.fixed_dictionaries({"x": st.none() | st.floats(), "y": st.just([("a", 1)])}),
        }
    ),
}


def digest_of(*batches):
    digest = Digest()
    for batch in batches:
        digest.update(batch)
    return digest


def one_column(values, kind):
    return pa.RecordBatch.from_arrays([pa.array(values, kind)], names=["v"])


@pytest.mark.parametrize("kind", VALUES, ids=str)
@given(data=st.data())
def test_order_and_batches_do_not_count(kind, data):
    """Any order of the rows, cut anywhere, sliced out of anything, or hashed before, has the same digest.

    Keeps 1 and 2 of merge/digest.
    """
    values = data.draw(st.lists(st.none() | VALUES[kind], min_size=1, max_size=8))
    whole = digest_of(one_column(values, kind))
    shuffled = data.draw(st.permutations(range(len(values))))
    cut = data.draw(st.integers(0, len(values)))
    extra = data.draw(st.lists(st.none() | VALUES[kind], max_size=3))
    order = [values[i] for i in shuffled]
    padded = one_column([*extra, *order, *extra], kind).slice(len(extra), len(order))
    other = digest_of(padded.slice(0, cut), padded.slice(cut))
    assert (other.hexdigest, other.rows) == (whole.hexdigest, len(values))
    brought = Digest()
    rows = brought.take_hashes(with_hashes(one_column(values, kind)).take(pa.array(shuffled)))
    assert rows.schema.names == ["v"]
    assert (brought.hexdigest, brought.rows) == (whole.hexdigest, len(values))


@pytest.mark.parametrize("kind", VALUES, ids=str)
@given(data=st.data())
def test_one_other_value_shows(kind, data):
    """Another value, a null, a row too many: each gives another digest. Keeps 2 of merge/rows/row_hash."""
    values = data.draw(st.lists(st.none() | VALUES[kind], min_size=1, max_size=6))
    other = data.draw(st.none() | VALUES[kind])
    before, after = one_column(values, kind), one_column([other, *values[1:]], kind)
    same = repr(before.to_pylist()) == repr(after.to_pylist())
    assert (digest_of(before).hexdigest == digest_of(after).hexdigest) == same
    assert digest_of(before).hexdigest != digest_of(before, before.slice(0, 1)).hexdigest


def test_rows_cannot_trade_values():
    """The digest is of rows, not of columns."""
    batch = pa.RecordBatch.from_pydict({"a": ["1", "2"], "b": ["x", "y"]})
    traded = pa.RecordBatch.from_pydict({"a": ["1", "2"], "b": ["y", "x"]})
    assert digest_of(batch).hexdigest != digest_of(traded).hexdigest


def test_neighbours_cannot_trade_bytes():
    """The end of one value and the begin of the next count, in columns and in lists. Keeps 2 of merge/rows/row_hash."""
    assert (
        digest_of(pa.RecordBatch.from_pydict({"a": ["ab"], "b": ["c"]})).hexdigest
        != digest_of(pa.RecordBatch.from_pydict({"a": ["a"], "b": ["bc"]})).hexdigest
    )
    lists = pa.list_(pa.list_(pa.int64()))
    assert (
        digest_of(one_column([[[1], [2]]], lists)).hexdigest != digest_of(one_column([[[1, 2], []]], lists)).hexdigest
    )


def test_map_values_count_like_map_keys():
    """A map with another value is another map."""
    kind = pa.map_(pa.string(), pa.int32())
    assert digest_of(one_column([[("a", 1)]], kind)).hexdigest != digest_of(one_column([[("a", 2)]], kind)).hexdigest


@pytest.mark.parametrize(
    ("one", "two", "kind"),
    [
        ("abcdefghi", "abcdefghj", pa.string()),
        ("a", "b", pa.string()),
        ("abcdefgh", "bbcdefgh", pa.string()),
        (1, 2, pa.int64()),
        (None, 0, pa.int64()),
        ([1], [2], pa.list_(pa.int64())),
        ({"n": 1}, {"n": 2}, pa.struct([("n", pa.int64())])),
    ],
)
def test_a_change_shows_in_both_lanes(one, two, kind):
    """Either half of the digest alone tells the rows apart."""
    first, second = (digest_of(one_column([value], kind)).hexdigest for value in (one, two))
    assert first[:16] != second[:16] and first[16:] != second[16:]
    assert first[:16] != first[16:]


def test_what_lies_under_a_null_does_not_count():
    """Bytes under a null value, list or struct are garbage. Keeps 1 of merge/rows/row_hash."""

    def masked(values, kind, mask):
        plain = pa.array(values, kind)
        buffers = plain.buffers()
        validity = pa.array([not null for null in mask]).buffers()[1]
        children = [plain.field(i) for i in range(kind.num_fields)] if pa.types.is_struct(kind) else []
        if pa.types.is_list(kind):
            children = [plain.values]
        return pa.RecordBatch.from_arrays(
            [
                pa.Array.from_buffers(
                    kind,
                    len(values),
                    [validity, *buffers[1 : 1 + len(buffers) - 1]][: kind.num_buffers],
                    children=children,
                )
            ],
            names=["v"],
        )

    struct = pa.struct([("n", pa.int64())])
    for kind, one, two in (
        (pa.int64(), [1, 2], [1, 3]),
        (pa.string(), ["a", "bc"], ["a", "xyz"]),
        (pa.list_(pa.int64()), [[1], [2]], [[1], [3, 4]]),
        (struct, [{"n": 1}, {"n": 2}], [{"n": 1}, {"n": 3}]),
    ):
        first, second = masked(one, kind, [False, True]), masked(two, kind, [False, True])
        assert first.to_pylist() == second.to_pylist()
        assert digest_of(first).hexdigest == digest_of(second).hexdigest


def test_dictionaries_and_wide_offsets_change_nothing():
    """Dictionary-coded and 64-bit-offset strings have the digest of plain ones. Keeps 1 of merge/rows/row_hash."""
    plain = pa.array(["a", None, "b", "a"])
    expected = digest_of(pa.RecordBatch.from_arrays([plain], names=["v"])).hexdigest
    in_the_middle = pa.array(["c", "a", None, "b", "a", None, "c"]).dictionary_encode().slice(1, 4)
    of_bytes = pa.DictionaryArray.from_arrays(pa.array([0, None, 1, 0], pa.int8()), pa.array([b"a", b"b", b"unused"]))
    for array in (plain.dictionary_encode(), plain.cast(pa.large_string()), in_the_middle, of_bytes):
        assert digest_of(pa.RecordBatch.from_arrays([array], names=["v"])).hexdigest == expected
    no_row_has_one = pa.DictionaryArray.from_arrays(pa.nulls(2, pa.int32()), pa.array([], pa.string()))
    nulls = pa.RecordBatch.from_arrays([pa.nulls(2, pa.string())], names=["v"])
    assert digest_of(pa.RecordBatch.from_arrays([no_row_has_one], names=["v"])).hexdigest == digest_of(nulls).hexdigest


def test_the_file_name_is_left_out():
    """`_hoodie_file_name` is set by the writer, so it is not part of the digest."""
    one = pa.RecordBatch.from_pydict({"a": [1], "_hoodie_file_name": ["x"]})
    two = pa.RecordBatch.from_pydict({"a": [1], "_hoodie_file_name": ["y"]})
    assert digest_of(one).hexdigest == digest_of(two).hexdigest
    assert digest_of().hexdigest == "0" * 32


def test_zeros_and_nans_keep_their_bits():
    """-0.0 and 0.0 are two values: an encoder that confuses them has changed a row."""
    assert digest_of(one_column([0.0], pa.float64())).hexdigest != digest_of(one_column([-0.0], pa.float64())).hexdigest
    nan = one_column([math.nan], pa.float64())
    assert digest_of(nan).hexdigest == digest_of(nan).hexdigest


def test_rows_whose_values_changed_are_hashed_again():
    """Other rows keep their hashes, so that a value that was mixed up is still found out; rows without stay without."""
    rows = pa.RecordBatch.from_pydict({"a": ["x", "y", "z"]})
    hashed = with_hashes(rows)
    changed = pa.RecordBatch.from_arrays([pa.array(["x", "new", "z"]), *hashed.columns[1:]], schema=hashed.schema)
    expected = with_hashes(pa.RecordBatch.from_pydict({"a": ["x", "new", "z"]}))
    assert hash_again(changed, np.array([1, 1])).equals(expected)
    assert not hash_again(changed, np.array([0])).equals(expected)
    assert hash_again(rows, np.array([1])) is rows
