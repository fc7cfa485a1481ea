"""Tables whose files are small and ask for much, each inspected and compacted; a process of its own, to be measured.

Prints, for each bomb, the exit codes of `inspect` and `compact`, and in the end the process's peak of memory in MiB.
"""

from __future__ import annotations

import contextlib
import io
import json
import resource
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

from lakeward.cli.main import run
from lakeward.format.avro.primitive import encode_bytes, encode_long
from lakeward.format.log.block import BlockType
from tests.golden_tables import copy_golden
from tests.read.log_files import block
from tests.scenarios.damaged_table import HEADERS, PLAN, avro_content, put_log

MEBIBYTE = 1024 * 1024
COMPACT = ("--engine", "local", "--writers", "stopped", "--type", "full", "--timezone", "UTC")


def container(avro_type: object, record: bytes, *, deflated: bool) -> bytes:
    """A plan of one field of that type."""
    schema = json.dumps({"type": "record", "name": "P", "fields": [{"name": "x", "type": avro_type}]}).encode()
    if deflated:
        deflater = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
        record = deflater.compress(record) + deflater.flush()
    entries = {b"avro.schema": schema, b"avro.codec": b"deflate" if deflated else b"null"}
    metadata = b"".join(encode_bytes(key) + encode_bytes(value) for key, value in entries.items())
    header = b"Obj\x01" + encode_long(len(entries)) + metadata + encode_long(0) + bytes(16)
    return header + encode_long(1) + encode_bytes(record) + bytes(16)


def repeated(item: bytes, count: int) -> bytes:
    return encode_long(count) + item * count + b"\x00"


def plan(content: bytes) -> Callable[[Path], None]:
    return lambda base: (base / PLAN).write_bytes(content) and None


def sparse(name: str) -> Callable[[Path], None]:
    """A file of a terabyte that takes no room."""

    def damage(base: Path) -> None:
        with (base / name).open("r+b") as file:
            file.truncate(1 << 40)

    return damage


def nested_records(levels: int) -> object:
    kind: object = "boolean"
    for level in range(levels):
        kind = {"type": "record", "name": f"N{level}", "fields": [{"name": "x", "type": kind}]}
    return kind


LISTS = {"type": "array", "items": {"type": "array", "items": "long"}}
RECORDS = {"type": "array", "items": nested_records(20)}
TEXT = encode_long(200 * MEBIBYTE) + bytes(200 * MEBIBYTE)
BILLIONS = block(BlockType.AVRO_DATA, HEADERS, avro_content(count=2**31 - 1))
BOMBS: dict[str, Callable[[Path], object]] = {
    "a deflated text": plan(container("string", TEXT, deflated=True)),
    "deflated empty lists": plan(container(LISTS, repeated(b"\x00", 8 * MEBIBYTE), deflated=True)),
    "empty lists": plan(container(LISTS, repeated(b"\x00", 2 * MEBIBYTE), deflated=False)),
    "records in records": plan(container(RECORDS, repeated(b"\x01", 2 * MEBIBYTE), deflated=False)),
    "a plan of a terabyte": sparse(PLAN),
    "two billion records": lambda base: put_log(base, BILLIONS),
}


def main(folder: Path) -> None:
    ended = {}
    for name, damage in BOMBS.items():
        base = copy_golden("v9", folder / name, pending=True)
        damage(base)
        with contextlib.redirect_stdout(io.StringIO()):
            ended[name] = (run(["inspect", str(base)]), run(["compact", str(base), *COMPACT]))
    print(json.dumps({"ended": ended, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
