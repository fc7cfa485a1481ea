"""Java properties: those of a table and of a partition, and what the table's configuration makes of them."""

from __future__ import annotations

import contextlib
import dataclasses

from lakeward.base.errors import LakewardError
from lakeward.format.java_properties import dump_properties, parse_properties
from lakeward.format.partition_metadata import read_partition_metadata
from lakeward.table.table_config import TableConfig
from tests.fuzz.golden import files


def corpus() -> list[bytes]:
    return [
        *files("v9", ".hoodie/hoodie.properties"),
        *files("v8", ".hoodie/hoodie.properties"),
        *files("v9", "p/.hoodie_partition_metadata"),
        b"a\\ b\\\n  c : d\\u00e9\\t\\\r\n# no\n! no\n=e\n",
    ]


def one_input(data: bytes) -> None:
    with contextlib.suppress(LakewardError):
        values = parse_properties(data)
        assert parse_properties(dump_properties(values)) == values
        config = TableConfig(values)
        for name in dir(type(config)):
            if not name.startswith("_") and isinstance(getattr(type(config), name), property):
                with contextlib.suppress(LakewardError):
                    getattr(config, name)
        assert dataclasses.is_dataclass(config)
    with contextlib.suppress(LakewardError):
        read_partition_metadata(data, file=".hoodie_partition_metadata")
