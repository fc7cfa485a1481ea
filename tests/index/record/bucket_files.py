"""Bucket files in memory, and the dict that says what they must answer."""

from __future__ import annotations

import io
import random
from collections.abc import Mapping, Sequence

import pyarrow as pa

from lakeward.index.location import LOCATIONS
from lakeward.index.record.block_cache import BlockCache
from lakeward.index.record.bucket_file import BucketFile
from lakeward.index.record.bucket_writer import BucketFileWriter
from lakeward.index.record.created_with import KeyScope

Place = tuple[str, str, str | None] | None
"""Partition path, file id and instant; None: the key is gone."""
Entries = Mapping[tuple[str, str], Place]
"""Keyed by record key and, for the scope `partition`, partition path ("" for the scope `global`)."""


def entry_key(key: tuple[str, str], scope: KeyScope) -> bytes:
    return "\0".join(key).encode() if scope is KeyScope.PARTITION else key[0].encode()


def locations(entries: Entries, scope: KeyScope) -> pa.RecordBatch:
    """In `LOCATIONS`, sorted as a file wants them."""
    rows = []
    for key in sorted(entries, key=lambda each: entry_key(each, scope)):
        place = entries[key]
        if place is None:
            rows.append((key[0], key[1] if scope is KeyScope.PARTITION else None, None, None))
        else:
            rows.append((key[0], *place))
    columns = [pa.array([row[column] for row in rows], pa.string()) for column in range(4)]
    return pa.RecordBatch.from_arrays(columns, schema=LOCATIONS)


def written(
    entries: Entries,
    *,
    scope: KeyScope = KeyScope.GLOBAL,
    with_instants: bool = False,
    block_bytes: int = 300,
    rows_at_once: int = 7,
) -> bytes:
    out = io.BytesIO()
    writer = BucketFileWriter(out, scope=scope, with_instants=with_instants, block_bytes=block_bytes)
    batch = locations(entries, scope)
    for start in range(0, len(batch), rows_at_once):
        writer.add(batch.slice(start, rows_at_once))
    stats = writer.finish()
    assert stats.size_bytes == len(out.getvalue())
    assert (stats.entries, stats.tombstones) == (len(entries), sum(each is None for each in entries.values()))
    return out.getvalue()


def opened(
    data: bytes, *, instant: str | None = None, cache: BlockCache | None = None, name: str = "x.hfile"
) -> BucketFile:
    return BucketFile(io.BytesIO(data), length=len(data), name=name, instant=instant, cache=cache)


def rows_of(batch: pa.RecordBatch) -> list[tuple[str | None, ...]]:
    return sorted(zip(*(column.to_pylist() for column in batch.columns), strict=True), key=repr)


ALPHABET = ["a", "b", "Aa", "BB", "é", "\U0001f600", "\uff21", "order-2024-", "0", "\0", "zz"]
"""Pieces of keys: of one hash, of several bytes in UTF-8, of a common beginning."""


def random_key(chance: random.Random) -> str:
    return "".join(chance.choices(ALPHABET, k=chance.randint(0, 5)))


def random_entries(
    chance: random.Random, count: int, scope: KeyScope, instants: Sequence[str | None] = (None,)
) -> dict[tuple[str, str], Place]:
    found: dict[tuple[str, str], Place] = {}
    for _ in range(count):
        partition = chance.choice(["", "p=1", "p=2"])
        key = (random_key(chance), partition if scope is KeyScope.PARTITION else "")
        file_id = f"file-{chance.randint(0, 200)}"
        found[key] = None if chance.random() < 0.2 else (partition, file_id, chance.choice(instants))
    return found
