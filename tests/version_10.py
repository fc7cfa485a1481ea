"""A golden table of version 9 made one of version 10, with native logs: no release writes any yet."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa

from lakeward.format.avro.container import write_record
from lakeward.format.file_name import LogFileName, NativeLogKind, NativeLogName, parse_log_file
from lakeward.format.log.block import BlockType, HeaderKey, LogBlock, scan_blocks
from lakeward.format.log.data_block import read_data_block
from lakeward.format.log.delete_block import read_delete_block
from lakeward.format.log.native_log.data_file import NativeDataWriter
from lakeward.format.log.native_log.delete_file import NativeDeleteWriter
from lakeward.format.log.native_log.footer import NativeLogFooter
from tests import native_log_judge as judge
from tests.our_reader import scan

FILE_ID = "ebf517f7-02cc-4e03-aec7-b7450919b7fd-0"


def set_version(base: Path, number: int) -> None:
    file = base / ".hoodie" / "hoodie.properties"
    lines = [line for line in file.read_text().splitlines() if not line.startswith("hoodie.table.version=")]
    file.write_text("\n".join([*lines, f"hoodie.table.version={number}", ""]))


def rename(value: Any, names: dict[str, str]) -> Any:
    """The same value with these words in place of others, in texts of any depth."""
    match value:
        case str():
            for old, new in names.items():
                value = value.replace(old, new)
            return value
        case dict():
            return {rename(key, names): rename(each, names) for key, each in value.items()}
        case list():
            return [rename(each, names) for each in value]
    return value


def with_native_logs(base: Path, content: bytes | None = None) -> list[str]:
    """Make the newest of the table's three logs a native one, in its commit and in the pending plan, too; the names.

    Args:
        content: of the native file; without it that of the inline log stays.
    """
    logs = sorted((base / "p").glob(".*.log.*"))
    instant, token = logs[-1].name.split("_")[1].split(".")[0], logs[-1].name.rpartition("_")[2]
    native = f"{FILE_ID}_{token}_{instant}_1.log.parquet"
    for file in (base / ".hoodie" / "timeline").iterdir():
        if file.suffix not in (".deltacommit", ".requested") or not file.stat().st_size:
            continue
        reader = fastavro.reader(io.BytesIO(file.read_bytes()))
        record: Any = next(reader)
        schema: Any = reader.writer_schema
        record = rename(record, {logs[-1].name: native})
        for stats in record.get("partitionToWriteStats", {}).values():
            for stat in stats:
                if content is not None and stat["path"].endswith(native):
                    stat["fileSizeInBytes"] = stat["totalWriteBytes"] = len(content)
        file.write_bytes(write_record(schema, record))
    logs[-1].rename(logs[-1].with_name(native))
    if content is not None:
        (base / "p" / native).write_bytes(content)
    return [*(log.name for log in logs[:-1]), native]


def made_native(base: Path, *, ordering_fields: tuple[str, ...] = ("ts",)) -> dict[str, tuple[str, ...]]:
    """Make each log of the table, which Hudi wrote inline, the native ones of the same rows and deletes, in whatever
    the timeline says of them too, and the table one of version 10. Names of the native ones, by that of the inline one.

    A log of rows gets a file of deletes beside it, of a key that the table never had: a flush may leave both.
    """
    native: dict[str, dict[str, int]] = {}
    for path in sorted(base.rglob(".*.log.*")):
        if (name := parse_log_file(path.name)) is None or ".hoodie" in path.relative_to(base).parts:
            continue
        files = _native_files(path, name, ordering_fields)
        for file, content in files.items():
            path.with_name(file).write_bytes(content)
        native[path.name] = {file: len(content) for file, content in files.items()}
        path.unlink()
    for said in (base / ".hoodie" / "timeline").iterdir():
        if said.is_file() and said.read_bytes()[:4] == b"Obj\x01":
            reader = fastavro.reader(io.BytesIO(said.read_bytes()))
            record: Any = next(reader)
            schema: Any = reader.writer_schema
            said.write_bytes(write_record(schema, _naming(record, native)))
    set_version(base, 10)
    return {name: tuple(files) for name, files in native.items()}


def _native_files(path: Path, name: LogFileName, ordering_fields: tuple[str, ...]) -> dict[str, bytes]:
    rows, keys, values = [], pa.array(["never there"], pa.string()), None
    with path.open("rb") as file:
        for block in scan_blocks(file, path.stat().st_size, name=path.name):
            assert isinstance(block, LogBlock)
            if block.type is BlockType.DELETE:
                (deleted,) = read_delete_block(file, block)
                keys, values = deleted.keys, deleted.ordering
                schema_json = block.headers[HeaderKey.SCHEMA]
            else:
                rows += list(read_data_block(file, block))
                schema_json = block.headers[HeaderKey.SCHEMA]
    footer = NativeLogFooter(name.instant, schema_json)
    found: dict[str, bytes] = {}
    if rows:
        table = pa.Table.from_batches(rows).combine_chunks()
        by_key = sorted(range(len(table)), key=lambda at: table["_hoodie_record_key"][at].as_py().encode())
        sink = io.BytesIO()
        with NativeDataWriter(sink, table.schema, file_id=name.file_id, footer=footer) as data:
            data.write(table.take(by_key).combine_chunks().to_batches()[0])
            data.close()
        found[_native_name(name, NativeLogKind.DATA)] = sink.getvalue()
    sink = io.BytesIO()
    deletes = NativeDeleteWriter(sink, footer=footer, ordering_fields=ordering_fields)
    by_key = sorted(range(len(keys)), key=lambda at: keys[at].as_py().encode())
    deletes.write(keys.take(by_key), None if values is None else values.take(by_key))
    deletes.close()
    found[_native_name(name, NativeLogKind.DELETES)] = sink.getvalue()
    return found


def _native_name(name: LogFileName, kind: NativeLogKind) -> str:
    assert name.write_token is not None
    return NativeLogName(name.file_id, name.write_token, name.instant, name.version, kind).text


def _naming(value: Any, native: dict[str, dict[str, int]]) -> Any:
    """The same value with native files in place of the inline ones: two in a list where one was."""
    if isinstance(value, dict):
        return {key: _naming(each, native) for key, each in value.items()}
    if isinstance(value, list):
        return [new for each in value for new in _named_again(each, native)]
    return value


def _named_again(value: Any, native: dict[str, dict[str, int]]) -> Iterator[Any]:
    path = value.get("path") if isinstance(value, dict) else value
    inline = path.rpartition("/")[2] if isinstance(path, str) else ""
    if inline not in native:
        yield _naming(value, native)
        return
    for name, size in native[inline].items():
        if isinstance(value, str):
            yield value.replace(inline, name)
        else:
            yield {
                **value,
                "path": path.replace(inline, name),
                "logFiles": [name],
                "totalWriteBytes": size,
                "fileSizeInBytes": size,
            }


def judged_rows(base: Path, *, ordering_fields: tuple[str, ...] = ("ts",)) -> dict[str, dict[str, Any]]:
    """What a table of native logs alone holds by the second reader, by record key."""
    found: dict[str, dict[str, Any]] = {}
    snapshot = scan(base)
    for group in snapshot.file_groups:
        slices = group.read_slices
        bases = [base / slice_.partition_path / slice_.base_file.name for slice_ in slices if slice_.base_file]
        names = [log.file_name for slice_ in slices for log in slice_.log_files]
        logs = {name: (base / group.partition_path / name).read_bytes() for name in names}
        rows = [row for path in bases for row in judge.rows(path.read_bytes())]
        found |= judge.merged(rows, logs, list(ordering_fields), lsm=snapshot.config.is_lsm_tree)
    return found


def add_changes(base: Path, commit: Path, name: str) -> str:
    """A file of changes that the completed commit names, beside the first file that it wrote. Its path."""
    reader = fastavro.reader(io.BytesIO(commit.read_bytes()))
    record: Any = next(reader)
    ((partition, (stat, *_)),) = record["partitionToWriteStats"].items()
    path = f"{partition}/{name}"
    (base / path).write_bytes(b"changes")
    stat["cdcStats"] = {path: len(b"changes")}
    schema: Any = reader.writer_schema
    commit.write_bytes(write_record(schema, record))
    return path
