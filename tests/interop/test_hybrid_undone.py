"""A hybrid plan of Lakeward that Hudi rolls back (`hybrid_table.py`): with our process dead on the way, or
completed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.crash.compacting import compact as compact_in_process
from tests.crash.other_process import age
from tests.faults import Fault, FaultKind, FaultyStorage, Killed
from tests.hudi.client import roll_back
from tests.interop.hybrid_table import PLANNER, Reported, compact
from tests.processes import ScriptedProcesses

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow]


STEPS = {
    "files": lambda call: call.startswith("move") and "/metadata/files/" in call,
    "metadata-commit": lambda call: call.startswith("link"),
}


@pytest.mark.wide
@pytest.mark.parametrize("last", ["files", "metadata-commit"])
def test_hudi_takes_over(planned: Reported, tmp_path: Path, last: str) -> None:
    """We died with our files in their places, or with the metadata table's commit made as well: Hudi rolls that back
    and carries the plan out again."""
    clean = FaultyStorage()
    compact_in_process(planned.copy_to(tmp_path / "clean").table.path, clean, ScriptedProcesses(), PLANNER)
    last_call = next(n for n, call in enumerate(clean.calls) if STEPS[last](call))
    with pytest.raises(Killed):
        compact_in_process(
            planned.table.path, FaultyStorage(Fault(FaultKind.KILL, last_call)), ScriptedProcesses(), PLANNER
        )
    (planned.table.path / ".hoodie/lock").unlink()
    age(planned.table.path, ".hoodie/.heartbeat/*", seconds=600)
    planned.check()

    planned.table.compact_pending(planned.instant)

    assert not planned.table.pending_instants()
    left = [name for name in planned.table.data_files() if f"_{planned.instant}." in name]
    assert sorted(name.partition("/")[0] for name in left) == ["hot", "late", "warm"], left
    assert all(name.endswith(".parquet") for name in left), left
    planned.check()
    planned.go_on()


@pytest.mark.wide
def test_hudi_rolls_it_back(spark: SparkSession, twin: Reported) -> None:
    """Completed, and rolled back by Hudi: the base file goes, our logs stay, and nothing reads them any more."""
    before = twin.table.snapshot()
    (done,) = compact(twin.table)

    roll_back(spark, twin.table, done["instant"])

    outputs = {each["partition_path"]: each["file_name"] for each in done["operations"]}
    assert not (twin.table.path / "hot" / outputs.pop("hot")).exists()
    assert all((twin.table.path / part / name).exists() for part, name in outputs.items())
    assert twin.table.snapshot() == before
    twin.check()
    twin.go_on()
