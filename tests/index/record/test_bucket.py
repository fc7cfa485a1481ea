"""Lookups in a bucket against a dict: random files, whatever the order, mode, cache and size of blocks."""

from __future__ import annotations

import os
import random

import pyarrow as pa
import pytest

from lakeward.index.record.block_cache import BlockCache
from lakeward.index.record.bucket import Bucket
from lakeward.index.record.bucket_file import BucketFile
from lakeward.index.record.created_with import KeyScope
from lakeward.index.record.record_options import LookupMode, LookupOptions
from tests.index.record.bucket_files import (
    Entries,
    Place,
    entry_key,
    opened,
    random_entries,
    random_key,
    rows_of,
    written,
)
from tests.runs import runs

SEED = int(os.environ.get("LAKEWARD_SEED", random.SystemRandom().randrange(2**32)))


def bucket_of(*layers: Entries, options: LookupOptions | None = None, scope: KeyScope = KeyScope.GLOBAL) -> Bucket:
    """A bucket of these entries, newest first."""
    files = [opened(written(each, scope=scope), name=f"{number}") for number, each in enumerate(layers)]
    return Bucket(files, scope=scope, options=options or LookupOptions())


def look_up(bucket: Bucket, *keys: str) -> dict[str, tuple[str | None, ...]]:
    return {str(row[0]): row[1:3] for row in rows_of(bucket.look_up(pa.array(keys, pa.string())))}


def random_bucket(
    chance: random.Random, scope: KeyScope, dead: frozenset[str]
) -> tuple[list[BucketFile], dict[tuple[str, str], Place]]:
    """Files, newest first, and what is true of all of them where the commits in `dead` are not valid."""
    files: list[BucketFile] = []
    truth: dict[tuple[str, str], Place] = {}
    for number in range(chance.randint(1, 4)):
        has_table = chance.random() < 0.5
        instants = [None, "s1", "s2"] if has_table else [f"i{number}"]
        entries = random_entries(chance, chance.randint(0, 80), scope, instants)
        data = written(
            entries,
            scope=scope,
            with_instants=has_table,
            block_bytes=chance.choice([1, 200, 2000, 10**6]),
            rows_at_once=chance.choice([1, 10, 1000]),
        )
        cache = BlockCache(chance.choice([0, 3000, 10**7]))
        instant = None if has_table else f"i{number}"
        files.insert(0, opened(data, instant=instant, cache=cache, name=f"file {number}"))
        truth |= {key: place for key, place in entries.items() if place is None or place[2] not in dead}
    return files, truth


@pytest.mark.parametrize("number", range(runs(40)))
def test_random_buckets(number: int):
    """Every mode finds what a dict of the newest valid entries has, of whole buckets of each scope."""
    print("LAKEWARD_SEED", SEED, number)
    chance = random.Random(f"{SEED} {number}")
    scope = chance.choice(list(KeyScope))
    dead = frozenset(chance.choice([[], ["s1"]]))
    files, truth = random_bucket(chance, scope, dead)
    for mode in LookupMode:
        options = LookupOptions(mode, scan_from=chance.choice([0.0, 0.35, 2.0]))
        bucket = Bucket(files, scope=scope, is_valid=lambda instant: instant not in dead, options=options)
        for _ in range(3):
            keys = {random_key(chance) for _ in range(chance.randint(0, 100))}
            found = bucket.look_up(pa.array(sorted(keys, key=lambda _: chance.random()), pa.string()))
            expected = [(key[0], *place) for key, place in truth.items() if place and key[0] in keys]
            assert rows_of(found) == sorted(expected, key=repr)
        if scope is KeyScope.PARTITION:
            pairs = list({(random_key(chance), chance.choice(["", "p=1", "p=2"])) for _ in range(60)})
            columns = [pa.array(column, pa.string()) for column in zip(*pairs, strict=True)]
            expected = [(key[0], *place) for key in pairs if (place := truth.get(key))]
            assert rows_of(bucket.look_up(*columns)) == sorted(expected, key=repr)


def test_newest_file_decides():
    """A key has the place of the newest file that has it, and none where that says that it is gone."""
    bucket = bucket_of(
        {("b", ""): None, ("c", ""): ("p", "newest", None)},
        {("a", ""): ("p", "middle", None), ("c", ""): None},
        {("a", ""): ("p", "oldest", None), ("b", ""): ("p", "oldest", None)},
    )

    assert look_up(bucket, "a", "b", "c", "d") == {"a": ("p", "middle"), "c": ("p", "newest")}


@pytest.mark.parametrize("mode", [LookupMode.SEEK, LookupMode.SCAN])
def test_keys_of_one_hash(mode: LookupMode):
    """`Aa` and `BB`, which Java hashes to the same number, are two keys."""
    bucket = bucket_of({("Aa", ""): ("p", "first", None)}, options=LookupOptions(mode))

    assert look_up(bucket, "Aa", "BB") == {"Aa": ("p", "first")}


def test_key_with_a_separator_inside():
    """A record key that holds 0x00 is not taken for another key in a partition."""
    entries: Entries = {("a", "p"): ("p", "one", None), ("a\0b", "p"): ("p", "two", None)}
    bucket = bucket_of(entries, scope=KeyScope.PARTITION)

    assert look_up(bucket, "a") == {"a": ("p", "one")}
    assert look_up(bucket, "a\0b") == {"a\0b": ("p", "two")}
    assert entry_key(("a\0b", "p"), KeyScope.PARTITION).startswith(entry_key(("a", "b"), KeyScope.PARTITION))


def test_dynamic_goes_by_the_share():
    """A file is scanned from the share of its entries on that is set, and sought in below."""
    assert LookupOptions(scan_from=0.35).mode_for(entries=100, keys=34) is LookupMode.SEEK
    assert LookupOptions(scan_from=0.35).mode_for(entries=100, keys=35) is LookupMode.SCAN
    assert LookupOptions(LookupMode.SEEK).mode_for(entries=100, keys=100) is LookupMode.SEEK
    assert LookupOptions(LookupMode.SCAN).mode_for(entries=100, keys=1) is LookupMode.SCAN
