"""Hudi's own HFile readers and writers: the native one of 1.1 and newer, and HBase's of 0.14 to 1.0.

Touches: the files it is given, through the JVM of a Spark session with the Hudi bundle.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lakeward.format.log.block import BlockType, LogBlock, scan_blocks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Entries = list[tuple[bytes, bytes]]

FOUND = 0


class HFilePlace(NamedTuple):
    """The place of an HFile: a base file from end to end, or the content of a log block."""

    path: Path
    offset: int
    length: int

    def read(self) -> bytes:
        with self.path.open("rb") as file:
            file.seek(self.offset)
            return file.read(self.length)


_CLASSES = {
    "NativeHFiles": "org.apache.hudi.io.hfile.HFileReaderImpl",
    "HBaseHFiles": "org.apache.hudi.io.storage.HoodieHBaseKVComparator",
}
"""Our class, and a class of the bundle that it is compiled against."""


def java_hfiles(spark: SparkSession, name: str) -> Any:
    """An object of the class `NativeHFiles` or `HBaseHFiles`."""
    return java_object(spark, name, _CLASSES[name])


@cache  # py4j remembers methods by the name of a class, so a class may be compiled only once
def java_object(spark: SparkSession, name: str, bundled: str) -> Any:
    """An object of the Java class `name`, whose source lies beside this module, compiled against the bundle that has
    the class `bundled`."""
    jvm = spark._jvm
    assert jvm is not None
    known: Any = getattr(jvm, bundled)
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(known._java_lang_class.getClassLoader())
    compiler.cook(Path(__file__).with_name(f"{name}.java").read_text())
    return compiler.getClassLoader().loadClass(name).getDeclaredConstructor(None).newInstance(None)


def hfiles_below(folder: Path) -> Iterator[HFilePlace]:
    """Every HFile of a metadata table, those inside of log files included."""
    for path in sorted(folder.rglob("*")):
        if path.name.endswith(".hfile"):
            yield HFilePlace(path, 0, path.stat().st_size)
        elif ".log." in path.name and not path.name.endswith(".crc"):
            with path.open("rb") as file:
                for block in scan_blocks(file, path.stat().st_size, name=str(path)):
                    if isinstance(block, LogBlock) and block.type is BlockType.HFILE_DATA:
                        yield HFilePlace(path, block.content_offset, block.content_length)


def write_entries(path: Path, entries: Iterable[tuple[bytes, bytes]]) -> str:
    """The file by which entries travel; returns its path as Java wants it."""
    with path.open("wb") as file:
        for part in (part for entry in entries for part in entry):
            file.write(struct.pack(">i", len(part)) + part)
    return str(path)


def read_entries(path: Path) -> Entries:
    data = path.read_bytes()
    parts = []
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from(">i", data, at)
        parts.append(data[at + 4 : at + 4 + length])
        at += 4 + length
    return list(zip(parts[::2], parts[1::2], strict=True))


def read_answers(path: Path) -> list[tuple[int, bytes]]:
    """(code, value) for each key that was looked for."""
    return [(struct.unpack(">i", code)[0], value) for code, value in read_entries(path)]
