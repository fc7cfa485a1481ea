"""A bucket file that was damaged is refused by its name, or answers as before: it never leads anywhere else.

Flips and cuts are drawn by chance; LAKEWARD_SEED takes a printed seed back, LAKEWARD_RUNS sets how many.
"""

from __future__ import annotations

import os
import random
import zlib

import pyarrow as pa
import pytest

from lakeward.base.errors import BrokenFile, LakewardError
from lakeward.index.record import bucket_writer
from lakeward.index.record.bucket import Bucket
from lakeward.index.record.created_with import KeyScope
from lakeward.index.record.file_form import FileHead
from lakeward.index.record.index_growth import Scaling
from lakeward.index.record.record_file import FileKind, IndexGroup, RecordFile
from lakeward.index.record.record_manifest import RECORD_FORM, RecordManifest
from lakeward.index.record.record_options import LookupMode, LookupOptions
from tests.index.record.bucket_files import opened, random_entries, random_key, rows_of, written
from tests.runs import runs

SEED = int(os.environ.get("LAKEWARD_SEED", random.SystemRandom().randrange(2**32)))


def answers(data: bytes, mode: LookupMode) -> list[list[tuple[str | None, ...]]]:
    """All entries, and what a lookup finds."""
    file = opened(data, name="some.hfile")
    entries = [
        row
        for block in file.blocks()
        for row in rows_of(file.to_locations(block.keys.keys, block.locations, block.instants))
    ]
    chance = random.Random(0)
    keys = pa.array(sorted({random_key(chance) for _ in range(60)}), pa.string())
    bucket = Bucket([file], scope=file.scope, options=LookupOptions(mode))
    return [sorted(entries, key=repr), rows_of(bucket.look_up(keys))]


@pytest.mark.parametrize("number", range(runs(200)))
def test_a_bit_is_another(number: int):
    """A bit of the file is flipped, or its end is gone."""
    print("LAKEWARD_SEED", SEED, number)
    chance = random.Random(f"{SEED} {number}")
    scope, mode = chance.choice(list(KeyScope)), chance.choice(list(LookupMode))
    entries = random_entries(chance, 60, scope, ["s1", "s2"])
    data = written(entries, scope=scope, with_instants=chance.random() < 0.5, block_bytes=chance.choice([200, 10**6]))
    expected = answers(data, mode)
    for _ in range(10):
        damaged = bytearray(data)
        if chance.random() < 0.8:
            damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        else:
            del damaged[chance.randrange(len(damaged)) :]
        try:
            found = answers(bytes(damaged), mode)
        except LakewardError as error:
            assert "some.hfile" in error.what, error
        else:
            assert found == expected


@pytest.mark.parametrize("number", range(runs(20)))
def test_a_bit_of_a_manifest_is_another(number: int) -> None:
    """A manifest of which a bit is flipped, or the end is gone, is refused by its name, or says what it said. Keeps 1
    of index/manifest_form."""
    print("LAKEWARD_SEED", SEED, number)
    chance = random.Random(f"{SEED} {number}")
    manifest = RecordManifest(7, chance.choice(list(KeyScope)), scaling=Scaling(entries_max=9)).with_first_group(3)
    for instant in map(str, range(1, 6)):
        at = IndexGroup(0, chance.randrange(3), 0)
        file = RecordFile(at, FileKind.DELTA, f"data/é-{instant}", chance.randrange(99), 1, 0, instant, None)
        manifest = manifest.with_commit(instant, chance.choice([instant, None]), [file])
    data = RECORD_FORM.encode(manifest.with_settled({"1": "1"}).with_exact("1"))
    expected = RECORD_FORM.decode(data, path="some.json", number=7)
    refused = 0
    for _ in range(100):
        damaged = bytearray(data)
        if chance.random() < 0.8:
            damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        else:
            del damaged[chance.randrange(len(damaged) - 1) :]
        try:
            found = RECORD_FORM.decode(bytes(damaged), path="some.json", number=7)
        except BrokenFile as error:
            assert "some.json" in error.what and "index build" in error.remedy
            refused += 1
        else:
            assert found == expected
    assert refused > 90


@pytest.mark.parametrize("inner", ["[]", "null", '"x"', "{}", "[" * 5000])
def test_a_manifest_of_another_kind(inner: str) -> None:
    """One whose checksum fits, and that is no manifest, is refused as a broken file."""
    data = b'{"crc32": %d, "manifest": %s}' % (zlib.crc32(inner.encode()), inner.encode())
    with pytest.raises(BrokenFile, match=r"some\.json"):
        RECORD_FORM.decode(data, path="some.json", number=7)


def test_counts_that_differ(monkeypatch: pytest.MonkeyPatch):
    """A file whose own count of entries is not that of its trailer is refused when it is opened."""
    monkeypatch.setattr(
        bucket_writer, "FileHead", lambda scope, entries, tombstones: FileHead(scope, entries + 1, tombstones)
    )
    data = written({("a", ""): ("p", "f", None), ("b", ""): None})

    with pytest.raises(BrokenFile, match=r"x\.hfile") as refused:
        opened(data)
    assert "counts 3 entries, and its trailer 2" in refused.value.why
