"""DuckDB as a reader of tables of version 10, for which no release of Hudi is there: files as Parquet, merges in SQL.

It knows names of files, the columns of the table and which of them orders rows, and imports nothing of the service. It
reads tables whose writes followed each other, none of which replaced a file group.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import IN_CI

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

META = ("_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_record_key", "_hoodie_partition_path")

_NATIVE = r"([^._/]+)_(\d+-\d+-\d+)_(\d+)_(\d+)\.(log|deletes)\.parquet$"
_BASE = r"([^._/]+)_(\d+-\d+-\d+)_(\d+)\.parquet$"

_FILES = f"""
    CREATE OR REPLACE TEMP TABLE files AS
    WITH named AS (
        SELECT path, regexp_matches(path, '{_NATIVE}') AS is_log,
            if(is_log, '{_NATIVE}', '{_BASE}') AS pattern
        FROM (SELECT unnest($paths) AS path)
    ), parts AS (
        SELECT path, is_log,
            if(is_log, regexp_extract(path, '{_NATIVE}', 1), regexp_extract(path, '{_BASE}', 1)) AS file_id,
            if(is_log, regexp_extract(path, '{_NATIVE}', 3), regexp_extract(path, '{_BASE}', 3)) AS instant,
            CASE WHEN is_log THEN CAST(regexp_extract(path, '{_NATIVE}', 4) AS INT) ELSE 0 END AS version,
            CASE WHEN is_log THEN regexp_extract(path, '{_NATIVE}', 5) ELSE 'base' END AS kind,
        FROM named
    ), sliced AS (
        SELECT *, max(instant) FILTER (kind = 'base') OVER (PARTITION BY file_id) AS base_instant FROM parts
    )
    SELECT * EXCLUDE (base_instant), row_number() OVER (
        ORDER BY kind <> 'base', instant, version, kind = 'deletes'
    ) AS rank
    FROM sliced
    WHERE if(is_log, instant > coalesce(base_instant, ''), instant = base_instant)
"""
"""The files of each newest slice, numbered in the order in which their records came."""


@dataclass(frozen=True, slots=True)
class DuckDB:
    """One table, in a database in memory."""

    connection: DuckDBPyConnection
    base: Path

    @classmethod
    def of(cls, base: Path) -> DuckDB:
        try:
            import duckdb
        except ModuleNotFoundError as missing:
            (pytest.fail if IN_CI else pytest.skip)(str(missing))
        connection = duckdb.connect()
        connection.execute("SET TimeZone = 'UTC'; SET threads = 1")
        return cls(connection, base)

    def rows(self, ordering: str | None, *, is_lsm: bool) -> list[dict[str, Any]]:
        """The rows of the table by record key, without the name of a file.

        Args:
            ordering: the column by whose values rows are merged; None where the later one wins.
            is_lsm: by ranks, as in the layout lsm_tree; else logs among themselves, and then onto the base.
        """
        self._take_files()
        self._take_records(ordering)
        found: list[dict[str, Any]] = self.connection.sql(_BY_RANK if is_lsm else _CLASSIC).to_arrow_table().to_pylist()
        return found

    def files(self) -> Iterator[tuple[str, str]]:
        """Kind and path of each file of the newest slices."""
        self._take_files()
        yield from self.connection.sql("SELECT kind, path FROM files ORDER BY rank").fetchall()

    def columns(self, path: str) -> dict[str, str]:
        """Name and type, as DuckDB has it."""
        described = self.connection.execute("DESCRIBE SELECT * FROM read_parquet(?)", [path]).fetchall()
        return {name: kind for name, kind, *_ in described}

    def footer(self, path: str) -> dict[str, str]:
        """What a native log says of itself; nothing of another file."""
        query = "SELECT decode(value) FROM parquet_kv_metadata(?) WHERE decode(key) = 'hudi.log.format.metadata'"
        found = self.connection.execute(query, [path]).fetchall()
        return json.loads(found[0][0]) if found else {}

    def is_strictly_ascending(self, path: str) -> bool:
        """Its record keys, by their bytes."""
        query = """
            SELECT coalesce(bool_and(before IS NULL OR encode(before) < encode(key)), true) FROM (
                SELECT _hoodie_record_key AS key, lag(key) OVER (ORDER BY file_row_number) AS before
                FROM read_parquet(?, file_row_number = true)
            )
        """
        ((found,),) = self.connection.execute(query, [path]).fetchall()
        return bool(found)

    def wrong_statistics(self, path: str) -> list[str]:
        """The columns whose statistics, of all row groups together, are not what their values are. Of nested columns
        there are none to compare."""
        columns = self.columns(path).items()
        leaves = [name for name, kind in columns if not kind.startswith(("STRUCT", "MAP")) and not kind.endswith("[]")]
        return [name for name in leaves if not self._agrees(path, name)]

    def _agrees(self, path: str, name: str) -> bool:
        given = """
            SELECT min(stats_min_value::VARCHAR), max(stats_max_value::VARCHAR), sum(stats_null_count), sum(num_values),
                bool_and(stats_null_count IS NOT NULL), count(*)
            FROM parquet_metadata(?) WHERE path_in_schema = ?
        """
        low, high, nulls, count, is_written, groups = self.connection.execute(given, [path, name]).fetchone() or ()
        quoted = f'"{name}"'
        real = f"""
            SELECT min({quoted})::VARCHAR, max({quoted})::VARCHAR, count(*) FILTER ({quoted} IS NULL), count(*)
            FROM read_parquet(?)
        """
        of_rows = self.connection.execute(real, [path]).fetchone()
        assert groups == 1, "these are files of one row group"
        return bool(is_written) and (low, high, nulls, count) == of_rows

    def _take_files(self) -> None:
        paths = [str(path) for path in sorted(self.base.rglob("*.parquet")) if ".hoodie" not in path.parts]
        self.connection.execute(_FILES, {"paths": paths})

    def _take_records(self, ordering: str | None) -> None:
        stood_for = {
            f"{file_id} {instant}"
            for file_id, path in self.connection.sql("SELECT file_id, path FROM files WHERE is_log").fetchall()
            for instant in self.footer(path).get("COMPACTED_BLOCK_TIMES", "").split(",")
        }
        paths = [path for (path,) in self.connection.sql("SELECT path FROM files").fetchall()]
        order = "NULL" if ordering is None else ordering
        self.connection.execute(
            f"""
            CREATE OR REPLACE TEMP TABLE records AS
            SELECT r.* EXCLUDE (filename, _hoodie_file_name), kind = 'deletes' AS is_gone, {order} AS ord, rank,
                kind = 'base' AS is_base, is_gone AND ord IS NULL AS is_unconditional,
                file_id || ' ' || instant IN $stood_for AS is_old
            FROM read_parquet($paths, union_by_name = true, filename = true) AS r JOIN files ON filename = path
            """,
            {"paths": paths, "stood_for": sorted(stood_for)},
        )


_OUT = "* EXCLUDE (is_gone, ord, rank, is_base, is_unconditional, is_old)"

_BY_RANK = f"""
    WITH marked AS (
        SELECT *, max(rank) FILTER (is_unconditional) OVER (PARTITION BY _hoodie_record_key) AS since FROM records
    )
    SELECT {_OUT} FROM (
        SELECT * EXCLUDE (since) FROM marked WHERE since IS NULL OR rank > since
        QUALIFY row_number() OVER (PARTITION BY _hoodie_record_key ORDER BY ord DESC, rank DESC) = 1
    )
    WHERE NOT is_gone ORDER BY encode(_hoodie_record_key)
"""
"""An unconditional delete ends what was there, and of what came after it the greatest ordering value wins, of equal
ones the later one. No file stands for others."""

_CLASSIC = f"""
    WITH logs AS (
        SELECT *, max(rank) FILTER (is_unconditional) OVER (PARTITION BY _hoodie_record_key) AS deleted
        FROM records WHERE NOT is_base AND NOT is_old
    ), revived AS (
        SELECT *, min(rank) FILTER (NOT is_gone AND rank > coalesce(deleted, 0)) OVER (PARTITION BY _hoodie_record_key)
            AS first_row FROM logs
    ), won AS (
        SELECT * FROM revived WHERE deleted IS NULL OR rank = deleted AND first_row IS NULL OR rank >= first_row
        QUALIFY row_number() OVER (PARTITION BY _hoodie_record_key ORDER BY ord DESC, rank DESC) = 1
    ), both_sides AS (
        SELECT * EXCLUDE (deleted, first_row) FROM won UNION ALL SELECT * FROM records WHERE is_base
    )
    SELECT {_OUT} FROM (
        SELECT * FROM both_sides QUALIFY row_number() OVER (
            PARTITION BY _hoodie_record_key ORDER BY is_unconditional DESC, ord DESC, rank DESC
        ) = 1
    )
    WHERE NOT is_gone ORDER BY encode(_hoodie_record_key)
"""
"""Logs among themselves: a delete with a value does not take back one without, a row does. Then the base row."""
