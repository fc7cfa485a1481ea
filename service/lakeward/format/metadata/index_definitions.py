"""The index definitions of a table: `.hoodie/.index_defs/index.json`.

    {"indexDefinitions": {NAME: {"indexName", "indexType", "indexFunction", "sourceFields", "indexOptions", "version"}}}

Every index is a partition of the metadata table, by its name. Hudi 1.0 writes no version, which is V1; column_stats and
partition_stats share that of column_stats, and where it is missing the table's version decides.

Touches: nothing.
Keeps:   1. a definition that is not as it should be is a `BrokenFile`, never left out;
         2. a version that we do not know is `Unsupported`;
         3. where columns are named again, all that the file says beside them is kept, also what we do not know.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from lakeward.base.errors import BrokenFile, Unsupported
from lakeward.format.metadata.partition import COLUMN_STATS, RECORD_INDEX
from lakeward.format.stats.stats_value import StatsVersion

INDEX_DEFINITIONS_PATH = ".hoodie/.index_defs/index.json"
"""The path below the base path, unless the table's property `hoodie.table.index.defs.path` says otherwise."""

_VERSIONS = {"V1": 1, "V2": 2}


@dataclass(frozen=True, slots=True)
class IndexDefinition:
    """One index."""

    name: str
    """The name, which is also that of its partition of the metadata table."""
    type: str
    function: str
    """The function of an expression index."""
    source_fields: tuple[str, ...]
    options: Mapping[str, str]
    version: int | None
    """None where the file has none."""


@dataclass(frozen=True, slots=True)
class IndexDefinitions:
    """All of a table, by name. A table without the file has none."""

    by_name: Mapping[str, IndexDefinition]

    def stats_version(self, *, has_typed_stats: bool) -> StatsVersion:
        """How column_stats and partition_stats encode values; the table's version decides where no definition does."""
        defined = self.by_name.get(COLUMN_STATS)
        if defined is not None and defined.version is not None:
            return StatsVersion(defined.version)
        return StatsVersion.V2 if has_typed_stats else StatsVersion.V1

    @property
    def column_stats_columns(self) -> tuple[str, ...]:
        """What column_stats and partition_stats cover, meta columns included; empty without a definition."""
        defined = self.by_name.get(COLUMN_STATS)
        return () if defined is None else defined.source_fields

    @property
    def is_partitioned_record_index(self) -> bool:
        """Whether each partition of the data has file groups of its own in the record index."""
        defined = self.by_name.get(RECORD_INDEX)
        return defined is not None and defined.options.get("isPartitioned", "").lower() == "true"


NO_INDEX_DEFINITIONS = IndexDefinitions({})


def parse_index_definitions(data: bytes, *, file: str) -> IndexDefinitions:
    """`file` names it in errors. Raises `BrokenFile` and `Unsupported`."""
    try:
        document = orjson.loads(data) if data.strip() else {}
        definitions = document.get("indexDefinitions") or {}
        return IndexDefinitions({name: _definition(name, fields) for name, fields in definitions.items()})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BrokenFile(
            f"{file} does not hold index definitions.",
            why=f"{type(error).__name__}: {error}.",
            remedy="Restore it, or have Hudi drop the table's indexes and build them again.",
        ) from error
    except _UnknownVersion as unknown:
        raise Unsupported(
            f"{file} holds an index that this release does not support.",
            why=f"{unknown}.",
            remedy="Upgrade Lakeward, or have Hudi drop that index.",
        ) from None


def with_source_fields(data: bytes, name: str, columns: Sequence[str], *, file: str) -> bytes:
    """The file with other columns for the index `name`, which it has; all else as it was. Raises `BrokenFile`."""
    definitions = parse_index_definitions(data, file=file)
    assert name in definitions.by_name, "its columns were read of this file"
    document = orjson.loads(data)
    document["indexDefinitions"][name]["sourceFields"] = list(columns)
    return _dump(document)


def with_definition(data: bytes, definition: IndexDefinition, *, file: str) -> bytes:
    """The file with this definition, in the place of one of its name; all else as it was. Raises `BrokenFile`."""
    parse_index_definitions(data, file=file)
    document = orjson.loads(data) if data.strip() else {}
    document["indexDefinitions"] = {**(document.get("indexDefinitions") or {}), definition.name: _fields(definition)}
    return _dump(document)


def dump_index_definitions(definitions: IndexDefinitions) -> bytes:
    """The file of a table that has none yet; `parse_index_definitions` gives them back."""
    return _dump({"indexDefinitions": {name: _fields(each) for name, each in definitions.by_name.items()}})


def _fields(definition: IndexDefinition) -> dict[str, Any]:
    fields = {
        "indexName": definition.name,
        "indexType": definition.type,
        "indexFunction": definition.function,
        "sourceFields": list(definition.source_fields),
        "indexOptions": dict(definition.options),
    }
    return fields if definition.version is None else {**fields, "version": f"V{definition.version}"}


def _dump(document: Any) -> bytes:
    # As Hudi's writers lay it out.
    return json.dumps(document, indent=2, separators=(",", " : "), ensure_ascii=False).encode()


class _UnknownVersion(Exception):
    """Which index, and what it says."""


def _definition(name: str, fields: Mapping[str, Any]) -> IndexDefinition:
    if fields["indexName"] != name:
        raise ValueError(f"the index {fields['indexName']!r} is called {name!r}")
    version = fields.get("version")
    if version is not None and version not in _VERSIONS:
        raise _UnknownVersion(f"The version of {name} is {version!r}")
    return IndexDefinition(
        name=name,
        type=_text(fields["indexType"]),
        function=_text(fields.get("indexFunction") or ""),
        source_fields=tuple(_text(field) for field in fields.get("sourceFields") or ()),
        options={_text(key): _text(value) for key, value in (fields.get("indexOptions") or {}).items()},
        version=None if version is None else _VERSIONS[version],
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value
