"""The sides of the comparison, each in a process of its own: `python -m benchmarks.merge.sides SIDE FOLDER`.

The process prints one line of JSON: what the work cost, what was written, a digest of its rows; or why it cannot be
had. A process that fails has its words on standard error.

Touches: what the side touches.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.merge.files import SliceFiles
from benchmarks.merge.rows_of import digest_of, rows_of, without_meta_columns
from benchmarks.merge.shape import Shape
from benchmarks.merge.watched import Watched
from tests.hudi.spark import HudiMissing

Work = tuple[Watched, list[Path], dict[str, Any]]
"""What it cost, what it wrote, what else is to be said."""

CHECKED, UNCHECKED = "lakeward", "lakeward unchecked"
FLOOR, COPY = "floor", "file copy"
HUDI, PAIMON = "hudi 1.2.0", "paimon 0.9.0"
DATAFUSION, DUCKDB = "datafusion", "duckdb"


def main() -> int:
    name, folder = sys.argv[1:]
    print(json.dumps(run_side(name, SliceFiles.open(Path(folder)))))
    return 0


def run_side(name: str, files: SliceFiles) -> dict[str, Any]:
    side = SIDES[name]
    if side.library is not None and find_spec(side.library) is None:
        return {
            "missing": f"{side.library} is not installed: {sys.executable} -m pip install -r requirements-bench.lock"
        }
    try:
        cost, paths, more = side.work(files)
    except HudiMissing as error:  # of Paimon, too
        return {"missing": str(error)}
    rows, digest = rows_of(paths, files.schema) if paths else (0, "")
    if more.get("row_groups_copied"):
        more |= judged_by_duckdb(paths[0], files.schema, (rows, digest))
    size = sum(path.stat().st_size for path in paths)
    return (
        asdict(cost)
        | {"rows": rows, "digest": digest, "output_bytes": size, "path": str(paths[0]) if paths else ""}
        | more
    )


def judged_by_duckdb(path: Path, schema: pa.Schema, expected: tuple[int, str]) -> dict[str, Any]:
    """Whether DuckDB reads the rows of a file with copied row groups as pyarrow does, where DuckDB is installed."""
    if find_spec(DUCKDB) is None:
        return {"not_judged": "DuckDB, which reads files with copied row groups again, is not installed"}
    from benchmarks.merge.by_duckdb import read_by_duckdb

    wanted = without_meta_columns(schema)
    rows, digest = digest_of(read_by_duckdb(path, wanted.names), wanted)
    if (rows, digest) == expected:
        return {"read_by_duckdb": rows}
    return {"other_rows": f"DuckDB reads {rows} rows of it, {expected[0]} expected, or other values"}


@dataclass(frozen=True, slots=True)
class Side:
    work: Callable[[SliceFiles], Work]
    """Imports what only this side needs."""
    library: str | None = None
    starts_jvm: bool = False
    also_logs: bool = False
    """It can carry out a LOG, too."""

    def left_out(self, name: str, shape: Shape, *, all_peers: bool) -> str | None:
        """Why this side does not run on this shape."""
        if shape.is_log_operation and not self.also_logs:
            return "it has no base file: a LOG"
        if name == HUDI and shape.native:
            return "no release of it reads native logs"
        if name == PAIMON and shape.deletes:
            return "its table would need other columns for deletes"
        if self.starts_jvm and not all_peers and name not in GOAL_PEERS.get(shape.name, ()):
            return "no goal asks for it here; --all-peers runs it"
        return None


GOAL_PEERS = {"typical": (HUDI,), "parquet-8-runs": (PAIMON,), "lsm-8-runs": (PAIMON,)}


def _lakeward(verify: bool) -> Callable[[SliceFiles], Work]:
    def work(files: SliceFiles) -> Work:
        from benchmarks.merge.by_lakeward import by_lakeward

        return by_lakeward(files, verify=verify)

    return work


def _floor(files: SliceFiles) -> Work:
    from benchmarks.merge.floor import by_floor

    return by_floor(files)


def _copy(files: SliceFiles) -> Work:
    from benchmarks.merge.floor import by_file_copy

    return by_file_copy(files)


def _datafusion(files: SliceFiles) -> Work:
    from benchmarks.merge.by_datafusion import by_datafusion

    return by_datafusion(files)


def _duckdb(files: SliceFiles) -> Work:
    from benchmarks.merge.by_duckdb import by_duckdb

    return by_duckdb(files)


def _hudi(files: SliceFiles) -> Work:
    from benchmarks.merge.by_hudi import by_hudi

    return by_hudi(files)


def _paimon(files: SliceFiles) -> Work:
    from benchmarks.merge.by_paimon import by_paimon

    return by_paimon(files)


SIDES: dict[str, Side] = {
    CHECKED: Side(_lakeward(True), also_logs=True),
    UNCHECKED: Side(_lakeward(False), also_logs=True),
    FLOOR: Side(_floor, also_logs=True),
    COPY: Side(_copy),
    DATAFUSION: Side(_datafusion, library="datafusion"),
    DUCKDB: Side(_duckdb, library="duckdb"),
    HUDI: Side(_hudi, starts_jvm=True),
    PAIMON: Side(_paimon, starts_jvm=True),
}

if __name__ == "__main__":
    sys.exit(main())
