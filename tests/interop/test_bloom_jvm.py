"""Our bloom filter, asked by Hudi's own classes."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from lakeward.format.bloom_filter import TYPE_CODE, BloomFilter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.interop

PREFIXES = ("k", "ключ-", "ü", "鍵", "😀x", "id:7,part:")


@pytest.mark.parametrize("count", [1, 1000, 70_000])
def test_hudi_finds_our_keys(spark: SparkSession, count: int):
    """Hudi reads the filter and finds the keys in it, ASCII or not, and hardly any others."""
    keys = [PREFIXES[i % len(PREFIXES)] + str(i) for i in range(count)]
    bloom = BloomFilter(count)
    bloom.add(pa.array(keys))
    # Each question is a call into the JVM: of many keys ask a sample that holds every prefix and every tail length.
    asked = keys[:: max(1, count // 997)]
    jvm = spark._jvm
    assert jvm is not None

    found = jvm.org.apache.hudi.common.bloom.BloomFilterFactory.fromString(bloom.to_base64(), TYPE_CODE)

    assert found.getBloomFilterTypeCode().toString() == TYPE_CODE
    assert all(found.mightContain(key) for key in asked)
    assert sum(found.mightContain(f"absent-{i}-é") for i in range(500)) <= 1
    assert base64.b64decode(found.serializeToString()) == bloom.to_bytes()


def test_a_filter_made_by_hudi_has_the_same_row(spark: SparkSession):
    """For the same number of keys Hudi sets exactly the same bits."""
    keys = [PREFIXES[i % len(PREFIXES)] + str(i) for i in range(1000)]
    bloom = BloomFilter(1000)
    bloom.add(pa.array(keys))
    jvm = spark._jvm
    assert jvm is not None

    theirs = jvm.org.apache.hudi.common.bloom.BloomFilterFactory.createBloomFilter(1000, 1e-9, 1000, TYPE_CODE)
    for key in keys:
        theirs.add(key)

    assert base64.b64decode(theirs.serializeToString()) == bloom.to_bytes()
