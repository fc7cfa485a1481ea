"""How a metadata table was born: its first files, so that those of Lakeward can be held against those of Hudi's."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from lakeward.format.hfile.reader import HFileReader
from lakeward.format.java_properties import parse_properties
from lakeward.format.metadata.codec import metadata_codec
from lakeward.format.timeline.commit_metadata import WriteStat, read_commit_metadata
from tests.metadata_golden import METADATA

_WRITE_TOKEN = re.compile(r"_\d+-\d+-\d+(?=[_.]|$)")
_COMPLETED = re.compile(r"_\d{17}(?=\.[a-z]+$)")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-\d+")
_GROUP = re.compile(r"-\d{4}-0")
_TIME = re.compile(r"20\d{15}")


def first_files(table: Path) -> dict[str, bytes]:
    """The initial builds, by paths below the metadata table, and its properties."""
    base = table / METADATA
    found = {path.relative_to(base).as_posix(): path for path in base.rglob("*") if path.is_file()}
    return {
        name: path.read_bytes()
        for name, path in sorted(found.items())
        if ("0000000000000" in name and not name.endswith(".crc"))
        or name in ("files/.hoodie_partition_metadata", ".hoodie/hoodie.properties")
    }


def comparable_files(files: dict[str, bytes]) -> dict[str, object]:
    """The same without times, write tokens, what is prose in schemas, and sizes that depend on it."""
    return {_COMPLETED.sub("", _WRITE_TOKEN.sub("", name)): _comparable(name, data) for name, data in files.items()}


def names_of_files(table: Path) -> set[str]:
    """What files a table has, however they are called in it: instants by their order, file groups and completion times
    by nothing. Which groups of an index get records hangs on the names of files, so these are without their number."""
    names = [path.relative_to(table).as_posix() for path in table.rglob("*") if path.is_file()]
    plain = [_COMPLETED.sub("", _WRITE_TOKEN.sub("", name)) for name in names if not name.endswith(".crc")]
    order = {time: f"T{number}" for number, time in enumerate(sorted({*_TIME.findall(" ".join(plain))}))}
    groups = (_GROUP.sub("-G", _UUID.sub("F", name)) for name in plain)
    return {_TIME.sub(lambda found: order[found[0]], name) for name in groups}


def without_prose(schema: Any) -> Any:
    """An Avro schema without its sentences."""
    if isinstance(schema, dict):
        return {key: without_prose(value) for key, value in schema.items() if key != "doc"}
    return [without_prose(each) for each in schema] if isinstance(schema, list) else schema


def _comparable(name: str, content: bytes) -> object:
    if name.endswith(".deltacommit"):
        commit = read_commit_metadata(content, file=name, layout=2)
        stats = {path: tuple(map(_comparable_stat, each)) for path, each in commit.partition_to_write_stats.items()}
        schema = without_prose(json.loads(commit.schema or ""))
        return replace(commit, partition_to_write_stats=stats, extra_metadata={}), schema
    if name.endswith(".hfile"):
        reader = HFileReader(io.BytesIO(content), length=len(content), name=name)
        schema = reader.info["schema"].decode()
        entries = [(key, metadata_codec(schema).decode(value, name)) for key, value in reader.entries()]
        ends = {key: reader.info[key] for key in ("minRecordKey", "maxRecordKey", "bloomFilterTypeCode")}
        return ends, entries, without_prose(json.loads(schema))
    if name.endswith((".hoodie_partition_metadata", ".properties")):
        return parse_properties(content)
    return content


def _comparable_stat(stat: WriteStat) -> WriteStat:
    path = _WRITE_TOKEN.sub("", stat.path or "")
    return replace(stat, path=path, total_write_bytes=0, file_size_in_bytes=0, runtime_stats=None)
