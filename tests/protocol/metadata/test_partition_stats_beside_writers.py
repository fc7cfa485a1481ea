"""What we say of a partition's range while a write is under way that began before us and will end after us."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.format.metadata.codec import metadata_codec
from lakeward.format.metadata.log_file import MetadataBlock, metadata_blocks
from lakeward.format.metadata.record import PartitionStatsRecord
from tests.crash.compacting import compact
from tests.faults import FaultyStorage
from tests.golden_tables import copy_golden
from tests.metadata_golden import DATA_TIMELINE, GOLDEN, METADATA
from tests.processes import ScriptedProcesses


def written(base: Path, instant: str) -> list[PartitionStatsRecord]:
    """The records of the log file that the commit has for them, if it has one."""
    found = list((base / METADATA / "partition_stats").glob(f".*_{instant}.log.*"))
    if not found:
        return []
    (path,) = found
    with path.open("rb") as file:
        (block,) = metadata_blocks(file, path.stat().st_size, path.name)
        assert isinstance(block, MetadataBlock) and block.hfile is not None and block.schema_json is not None
        codec = metadata_codec(block.schema_json)
        records = [codec.decode(value, path.name) for _, value in block.hfile.entries()]
    return [record for record in records if isinstance(record, PartitionStatsRecord)]


@pytest.mark.parametrize(
    ("pending", "is_said"),
    [
        ((), True),
        (("20260101000000000.deltacommit.requested", "20260101000000000.deltacommit.inflight"), False),
        (("20260101000000000.replacecommit.requested",), False),
        (("20260101000000000.clean.requested",), True),
    ],
    ids=["no-writer", "a-write", "an-overwrite", "a-clean"],
)
def test_a_range_is_said_only_while_no_earlier_write_is_under_way(
    tmp_path: Path, pending: tuple[str, ...], is_said: bool
) -> None:
    """t10 a write begins; t20 we plan and commit; t30 the write commits. Its statistics are read as older ones than
    Lakeward's, so Lakeward's may not take their place: queries would skip the partition that has its rows."""
    base = copy_golden(GOLDEN, tmp_path / "table")
    for name in pending:
        (base / DATA_TIMELINE / name).touch()
    compact(base, FaultyStorage(), ScriptedProcesses())
    (instant,) = {path.name.partition(".")[0] for path in (base / DATA_TIMELINE).glob("*compaction.requested")}
    assert {record.column for record in written(base, instant)} >= ({"id", "ts"} if is_said else set())
    assert bool(written(base, instant)) == is_said
