"""Digests of the records of a log."""

from __future__ import annotations

import pyarrow as pa

from lakeward.engine.task.record_digests import RecordDigests
from lakeward.merge.rules.tombstones import Tombstones


def of(*parts: tuple[list[str], list[int | None] | None], kind: pa.DataType | None) -> str:
    digests = RecordDigests(kind)
    for keys, values in parts:
        ordering = None if values is None else pa.array(values, kind or pa.int64())
        digests.update_deletes(Tombstones(pa.array(keys), ordering))
    return digests.hexdigest


def test_the_order_and_the_batches_do_not_matter() -> None:
    """Keeps 1 of engine/task/record_digests."""
    kind = pa.int64()
    whole = of((["a", "b"], [1, 2]), kind=kind)
    assert whole == of((["b"], [2]), (["a"], [1]), kind=kind)
    assert whole != of((["a", "b"], [2, 1]), kind=kind)


def test_a_delete_without_a_value() -> None:
    """Keeps 2 of engine/task/record_digests: 0 compares with integers of 32 bits, with no other type."""
    assert of((["a"], None), kind=pa.int32()) == of((["a"], [0]), kind=pa.int32())
    assert of((["a"], None), kind=pa.int64()) != of((["a"], [0]), kind=pa.int64())
    digests = RecordDigests(pa.string())
    digests.update_deletes(Tombstones(pa.array(["a"]), pa.array([""])))
    assert of((["a"], None), kind=pa.string()) != digests.hexdigest
    assert of((["a"], [None]), kind=None) != of((["a"], [0]), kind=None)
