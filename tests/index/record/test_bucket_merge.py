"""Merges of bucket files against a dict."""

from __future__ import annotations

import io
import os
import random

import pytest

from lakeward.base.errors import BrokenFile
from lakeward.index.record.bucket_file import BucketFile
from lakeward.index.record.bucket_merge import merge_bucket_files
from lakeward.index.record.created_with import KeyScope
from tests.index.record.bucket_files import Entries, opened, rows_of, written
from tests.index.record.test_bucket import random_bucket
from tests.runs import runs

SEED = int(os.environ.get("LAKEWARD_SEED", random.SystemRandom().randrange(2**32)))


def merged(
    files: list[BucketFile],
    *,
    keeps_tombstones: bool,
    scope: KeyScope = KeyScope.GLOBAL,
    unsettled: frozenset[str] = frozenset(),
    dead: frozenset[str] = frozenset(),
) -> BucketFile:
    out = io.BytesIO()
    stats = merge_bucket_files(
        files,
        out,
        scope=scope,
        keeps_tombstones=keeps_tombstones,
        unsettled=unsettled,
        is_valid=lambda instant: instant not in dead,
    )
    file = opened(out.getvalue(), name="merged")
    assert (stats.entries, stats.tombstones) == (file.head.entries, file.head.tombstones)
    return file


@pytest.mark.parametrize("number", range(runs(40)))
def test_random_merges(number: int):
    """A merged file has the newest valid entry of each key, FULL without tombstones and LOG with them, and the instants
    that may still turn invalid, but no other."""
    print("LAKEWARD_SEED", SEED, number)
    chance = random.Random(f"{SEED} {number}")
    scope = chance.choice(list(KeyScope))
    dead = frozenset(chance.choice([[], ["s1"]]))
    unsettled = frozenset(chance.sample(["i0", "i1", "s2"], 2))
    keeps_tombstones = chance.random() < 0.5
    files, truth = random_bucket(chance, scope, dead)

    file = merged(files, keeps_tombstones=keeps_tombstones, scope=scope, unsettled=unsettled, dead=dead)

    expected: list[tuple[str | None, ...]] = []
    for (key, partition), place in truth.items():
        if place is not None:
            expected.append((key, *place[:2], place[2] if place[2] in unsettled else None))
        elif keeps_tombstones:
            expected.append((key, partition if scope is KeyScope.PARTITION else None, None, None))
    found = [row for batch in file.locations() for row in rows_of(batch)]
    assert sorted((row if row[2] else (*row[:3], None) for row in found), key=repr) == sorted(expected, key=repr)
    assert set(file.instants.to_pylist()) <= unsettled


def test_tombstone_of_a_log_keeps_its_instant():
    """A tombstone of a LOG is since its commit, so that it can still turn invalid."""
    files = [opened(written({("a", ""): None}), instant="i2"), opened(written({("b", ""): ("p", "f", None)}))]

    file = merged(files, keeps_tombstones=True, unsettled=frozenset({"i2"}))

    assert [rows_of(batch) for batch in file.locations()] == [[("a", None, None, "i2"), ("b", "p", "f", None)]]


def test_full_of_all_gone_is_empty():
    """A bucket of which every key is gone merges into a file without entries, which is read as such."""
    entries: Entries = {("a", ""): None, ("b", ""): None}

    file = merged([opened(written(entries))], keeps_tombstones=False)

    assert file.entry_count == 0 and file.key_range is None and list(file.locations()) == []


def test_merges_do_not_depend_on_batches():
    """Equal files give equal bytes, whatever the size of their blocks."""
    entries: Entries = {(f"{number:04}", ""): ("p", f"f{number % 7}", None) for number in range(500)}
    outs = []
    for block_bytes in (200, 5000):
        out = io.BytesIO()
        files = [opened(written(entries, block_bytes=block_bytes))]
        merge_bucket_files(
            files, out, scope=KeyScope.GLOBAL, keeps_tombstones=True, unsettled=(), is_valid=lambda _: True
        )
        outs.append(out.getvalue())
    assert outs[0] == outs[1]


def test_wrong_count_ends_a_merge():
    """A file that has fewer entries than it counts is refused, and not merged into a file that has lost some."""
    file = opened(written({(f"{number}", ""): ("p", "f", None) for number in range(9)}))
    object.__setattr__(file.head, "entries", 10)

    with pytest.raises(BrokenFile, match="counts 10 entries, and its blocks hold 9"):
        merged([file], keeps_tombstones=True)
