"""A golden table of version 9 made one of version 10, with a native log among its logs: no release writes any yet."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import fastavro

from lakeward.format.avro.container import write_record

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
