"""Our bloom filter, asked by Hudi's own classes."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from lakeward.format.bloom_filter import BloomFilter
from lakeward.format.bloom_lookup import SIMPLE_TYPE_CODE, TYPE_CODE, BloomRows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.interop

PREFIXES = ("k", "ключ-", "ü", "鍵", "😀x", "id:7,part:")


@pytest.mark.parametrize(
    ("count", "kind"),
    [(1, TYPE_CODE), (1000, TYPE_CODE), (70_000, TYPE_CODE), (1000, SIMPLE_TYPE_CODE), (400_000, TYPE_CODE)],
)
def test_hudi_finds_our_keys(spark: SparkSession, count: int, kind: str):
    """Hudi reads the filter and finds the keys in it, ASCII or not, and hardly any others."""
    keys = [PREFIXES[i % len(PREFIXES)] + str(i) for i in range(count)]
    bloom = BloomFilter(count, kind)
    bloom.add(pa.array(keys))
    # Each question is a call into the JVM: of many keys ask a sample that holds every prefix and every tail length.
    asked = keys[:: max(1, count // 997)]
    jvm = spark._jvm
    assert jvm is not None

    found = jvm.org.apache.hudi.common.bloom.BloomFilterFactory.fromString(bloom.to_base64(), kind)

    assert found.getBloomFilterTypeCode().toString() == kind
    assert all(found.mightContain(key) for key in asked)
    assert sum(found.mightContain(f"absent-{i}-é") for i in range(500)) <= 1
    assert base64.b64decode(found.serializeToString()) == bloom.to_bytes()


@pytest.mark.parametrize(
    ("entries", "rate", "bound", "kind", "keys"),
    [
        (60_000, 1e-9, 100_000, TYPE_CODE, 3),  # Hudi's defaults
        (100, 1e-9, 300, TYPE_CODE, 250),  # three rows
        (100, 1e-4, 300, TYPE_CODE, 900),  # three rows that are filled up
        (50, 1e-2, 50, TYPE_CODE, 400),
        (500, 1e-9, 500, SIMPLE_TYPE_CODE, 500),
        (10, 1e-3, 10, SIMPLE_TYPE_CODE, 300),
    ],
)
def test_our_answers_about_their_filters_are_hudis(
    spark: SparkSession, entries: int, rate: float, bound: int, kind: str, keys: int
):
    """Filters of either kind, of several rows, and overfull: for keys that are there and others."""
    jvm = spark._jvm
    assert jvm is not None
    hudis = jvm.org.apache.hudi.common.bloom.BloomFilterFactory.createBloomFilter(entries, rate, bound, kind)
    there = [PREFIXES[i % len(PREFIXES)] + str(i) for i in range(keys)]
    for key in there:
        hudis.add(key)
    asked = [*there[:300], *(f"absent-{i}-é" for i in range(300))]

    rows = BloomRows.of_base64(hudis.serializeToString().encode(), kind)

    assert rows.lookup(pa.array(there)).all()
    assert rows.lookup(pa.array(asked)).tolist() == [hudis.mightContain(key) for key in asked]
    if keys in (250, 900):
        assert rows.count == 3


def test_a_filter_of_the_other_kind_does_not_have_its_keys(spark: SparkSession):
    """Which is why a file gets the kind that the table's writers are set to: they would insert its keys again."""
    keys = [f"k{i}" for i in range(100)]
    bloom = BloomFilter(100)
    bloom.add(pa.array(keys))
    jvm = spark._jvm
    assert jvm is not None

    taken_for_simple = jvm.org.apache.hudi.common.bloom.BloomFilterFactory.fromString(
        bloom.to_base64(), SIMPLE_TYPE_CODE
    )

    assert not any(taken_for_simple.mightContain(key) for key in keys)


def test_a_filter_made_by_hudi_has_the_same_row(spark: SparkSession):
    """For the same number of keys Hudi sets exactly the same bits."""
    keys = [PREFIXES[i % len(PREFIXES)] + str(i) for i in range(1000)]
    bloom = BloomFilter(1000)
    bloom.add(pa.array(keys))
    jvm = spark._jvm
    assert jvm is not None

    hudis = jvm.org.apache.hudi.common.bloom.BloomFilterFactory.createBloomFilter(1000, 1e-9, 1000, TYPE_CODE)
    for key in keys:
        hudis.add(key)

    assert base64.b64decode(hudis.serializeToString()) == bloom.to_bytes()
