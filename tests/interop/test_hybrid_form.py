"""A hybrid plan of Lakeward on a table with every partition of the metadata table (`hybrid_table.py`): Hudi and we
carry it out, and Hudi, its oldest release of version 9 among them, goes on with what we made.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hudi.metadata_table import WITHOUT_METADATA
from tests.hudi.other_release import OtherRelease
from tests.hudi.spark import OLDEST_VERSION
from tests.interop.hybrid_table import (
    BY_RECORD_INDEX,
    WITH_METADATA,
    Reported,
    carry_out,
    compact,
    select,
    some,
    values_of,
)
from tests.interop.lakeward_cli import compact as compact_full

pytestmark = [pytest.mark.interop, pytest.mark.slow]


@pytest.mark.turns
def test_hudi_carries_it_out(planned: Reported, twin: Reported) -> None:
    """Hudi reads a table with the plan as one without. To it every operation is FULL: it leaves no log behind."""
    assert planned.table.snapshot() == twin.table.snapshot()

    planned.table.compact_pending(planned.instant)

    assert not planned.table.pending_instants()
    assert planned.table.snapshot() == twin.table.snapshot()
    planned.check()


@pytest.mark.turns(31)
def test_we_carry_it_out(planned: Reported, twin: Reported) -> None:
    """What a writer committed after the plan stays. After LOG, LOG, hybrid come another hybrid plan, whose LOG opens
    the output of the one before and the log after it, and a FULL by us; or a FULL by Hudi."""
    carry_out(planned)

    assert planned.table.snapshot() == twin.table.snapshot()
    assert planned.table.read_by_hudi_rs() == twin.table.read_by_hudi_rs()
    planned.check()
    fulls = planned.copy_to(planned.table.path.with_name("full"))
    (again,) = compact(fulls.table)
    assert {each["partition_path"]: each["counts"]["log_files"] for each in again["operations"]}["warm"] == 2
    assert fulls.table.snapshot() == twin.table.snapshot()
    compact_full(fulls.table)
    fulls.check()
    assert fulls.table.read_optimized() == fulls.table.snapshot() == twin.table.snapshot()
    planned.go_on()


@pytest.mark.wide
def test_the_oldest_release_goes_on(planned: Reported, tmp_path: Path) -> None:
    """Hudi 1.1.1 reads the pending plan, and carries it out; it reads what we made of it, upserts by the record index,
    and compacts."""
    its = planned.copy_to(tmp_path / "its")
    with OtherRelease(OLDEST_VERSION, tmp_path / "scratch") as oldest:
        seen, run = (oldest.table(shown.table.path, shown.table.shape) for shown in (planned, its))

        def check() -> None:
            for options in (WITH_METADATA, WITHOUT_METADATA):
                assert values_of(seen.snapshot(**options)) == planned.expected()
            planned.check()

        check()
        carry_out(planned)
        check()
        assert seen.read_optimized(**WITH_METADATA) == planned.table.read_optimized(with_meta=False)
        written = [row for part in ("hot", "warm") for row in some(part, range(5), 20, "old")]
        written += some("late", range(38, 42), 20, "old")
        seen.write(select(written), "upsert", **BY_RECORD_INDEX)
        planned.model.upsert(written, new_keys_go_to_logs=False)
        check()
        seen.compaction("op => 'scheduleAndExecute'")
        check()

        run.compaction(f"op => 'run', timestamp => {its.instant}")
        assert not its.table.pending_instants()
        assert values_of(run.snapshot(**WITH_METADATA)) == its.expected()
    for shown in (planned, its):
        shown.check()
        shown.go_on()
