"""The HFiles that go between us and Hudi: what is in them, and how they are written.

Touches: the files it is asked to write.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from lakeward.format.hfile.block import HFileCodec
from lakeward.format.hfile.writer import BLOCK_BYTES, HFileWriter
from tests.hudi.hfile_java import Entries

GZIP, NONE = HFileCodec.GZIP, HFileCodec.NONE


def numbered(count: int, value_bytes: int = 20) -> Entries:
    """Keys with a gap after each."""
    return [(b"key-%09d" % (2 * n), (b"%d." % n * value_bytes)[: n % (value_bytes + 1)]) for n in range(count)]


ENTRY = 21 + 13 + 38  # 72 bytes each, as in the report of Hudi's lost rows
LOSING: Entries = [(b"key-%09d" % n, sha256(b"%d" % n).hexdigest()[:38].encode()) for n in range(30_000)]
TEXTS = ("k", "ключ-", "ü", "鍵", "😀x", "！", "id:7,part:", "")
TEXT: Entries = sorted((f"{text}{n}".encode(), text.encode()) for text in TEXTS for n in range(100))
LONG: Entries = [
    (letter * length, letter) for letter in (b"a", b"b", b"c") for length in (1, 115, 116, 126, 200, 32_767)
]

OWN: dict[str, tuple[Entries, HFileCodec, int]] = {
    "empty": ([], GZIP, BLOCK_BYTES),
    "empty, not compressed": ([], NONE, BLOCK_BYTES),
    "one": ([(b"key", b"value")], GZIP, BLOCK_BYTES),
    "one, not compressed": ([(b"key", b"value")], NONE, BLOCK_BYTES),
    "one without a value": ([(b"key", b"")], GZIP, BLOCK_BYTES),
    "a block each": (numbered(300), GZIP, 1),
    "a byte below a block": (LOSING[:30], GZIP, 5 * ENTRY - 1),
    "exactly a block": (LOSING[:30], NONE, 5 * ENTRY),
    "a byte above a block": (LOSING[:30], GZIP, 5 * ENTRY + 1),
    "the last block with one entry": (LOSING[:31], NONE, 5 * ENTRY),
    "an entry beyond the block size": ([(b"a", b"1"), (b"b", b"2" * 3_000_000), (b"c", b"3")], GZIP, BLOCK_BYTES),
    "rows that Hudi lost": (LOSING, GZIP, BLOCK_BYTES),
    "rows that Hudi lost, not compressed": (LOSING, NONE, BLOCK_BYTES),
    "text": (TEXT, GZIP, 1000),
    "long keys": (sorted(LONG), NONE, 1000),
    "200,000": (numbered(200_000), GZIP, BLOCK_BYTES),
}


def write_own(path: Path, entries: Entries, codec: HFileCodec, block_bytes: int) -> None:
    with path.open("wb") as sink:
        writer = HFileWriter(sink, codec=codec, block_bytes=block_bytes)
        for key, value in entries:
            writer.add(key, value)
        stats = writer.finish({"schema": "{ключ}".encode()}, meta_blocks={"bloomFilter": b"AAAA"})
    assert stats.size_bytes == path.stat().st_size


def probes(entries: Entries) -> list[bytes]:
    """Every key, a key that is not there behind each, and one behind them all; in order, as Hudi's reader wants."""
    keys = [key for key, _ in entries]
    return sorted({*keys, *(key + b"!" for key in keys if len(key) < 32_767), b"\xf4\x8f\xbf\xbf"})


HUDIS: dict[str, Entries] = {
    "empty,65536,GZ,131072,CRC32C": [],
    "one,65536,GZ,131072,CRC32C": [(b"key", b"value")],
    "small,65536,NONE,131072,CRC32": numbered(100),
    "unchecked,1024,NONE,131072,NULL": numbered(500),
    "fake keys,16384,GZ,131072,CRC32C": numbered(20_000),
    "leaf indexes,1024,NONE,2000,CRC32": numbered(5_000),
    "intermediate indexes,512,GZ,300,CRC32C": numbered(20_000),
    "long keys,1024,GZ,200,CRC32C": sorted(LONG),
    "text,256,GZ,500,CRC32C": TEXT,
}
