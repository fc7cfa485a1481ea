"""What an upgrade or a downgrade changes, from properties alone."""

from __future__ import annotations

import pytest

from lakeward.errors import Refused, UsageError
from lakeward.plan.version_change import StepKind, VersionChange, plan_version_change
from lakeward.table.table_config import TableConfig

MODE = "hoodie.meta.fields.mode"


def config(version: int, **more: str) -> TableConfig:
    named = {"hoodie." + key.replace("_", "."): value for key, value in more.items()}
    return TableConfig({"hoodie.table.name": "t", "hoodie.table.version": str(version), **named})


def upgrade(table: TableConfig, metadata: TableConfig | None = None, target: int = 10) -> VersionChange:
    return plan_version_change("/t", table, metadata, target, is_upgrade=True)


def changes(change: VersionChange) -> list[tuple[str, dict[str, str | None]]]:
    return [(step.kind.value, dict(step.changes)) for step in change.steps]


def test_the_table_itself_is_last() -> None:
    """Keeps 1 of plan/version_change; each has the mode of its own meta columns, and what is done already is left
    out."""
    of_table = {"hoodie.table.version": "10", MODE: "ALL"}
    of_metadata = {"hoodie.table.version": "10", MODE: "NONE"}
    metadata = config(9, populate_meta_fields="false")
    assert changes(upgrade(config(9), metadata)) == [
        (StepKind.METADATA_PROPERTIES, of_metadata),
        (StepKind.PROPERTIES, of_table),
    ]
    assert changes(upgrade(config(9), config(10))) == [(StepKind.PROPERTIES, of_table)]
    assert changes(upgrade(config(9))) == [(StepKind.PROPERTIES, of_table)]
    assert changes(upgrade(config(10), metadata)) == [(StepKind.METADATA_PROPERTIES, of_metadata)]
    assert changes(upgrade(config(10), config(10))) == []


@pytest.mark.parametrize("mode", ["ALL", "none", "COMMIT_TIME_ONLY"])
def test_a_mode_that_is_there_is_kept(mode: str) -> None:
    """Keeps 2 of plan/version_change."""
    (step,) = upgrade(config(9, meta_fields_mode=mode)).steps
    assert dict(step.changes) == {"hoodie.table.version": "10"}


@pytest.mark.parametrize(
    ("table", "metadata", "why"),
    [
        (config(9, meta_fields_mode="SOME"), None, "Hudi knows no such mode"),
        (config(9, meta_fields_mode="FILE_NAME_ONLY", table_type="MERGE_ON_READ"), None, "all meta columns or none"),
        (config(9, table_ordering_fields="a,b.c"), None, "ordered by b.c"),
        (config(9, table_storage_layout="LSM_TREE"), None, "every file is sorted"),
        (config(9), config(8), "not ended"),
        (config(8), None, "Hudi compacts the whole"),
        (config(6), None, "Hudi compacts the whole"),
    ],
)
def test_what_cannot_be_upgraded_is_refused(table: TableConfig, metadata: TableConfig | None, why: str) -> None:
    """Keeps 3 of plan/version_change, and what version 10 would read in another way."""
    with pytest.raises(Refused) as refused:
        upgrade(table, metadata)
    assert why in str(refused.value.why)


def test_the_way_to_hudi_is_told() -> None:
    """Up by a write, down by its procedure; and there are versions that this release does not know."""
    with pytest.raises(Refused, match=r"hoodie\.write\.table\.version=9"):
        upgrade(config(8), target=9)
    with pytest.raises(Refused, match="to_version => 'EIGHT'"):
        plan_version_change("/t", config(9), None, 8, is_upgrade=False)
    with pytest.raises(Refused, match="knows the versions 6 to 10"):
        upgrade(config(10), target=11)


def test_up_is_not_down() -> None:
    with pytest.raises(UsageError, match="lakeward table downgrade"):
        upgrade(config(10), target=9)
    with pytest.raises(UsageError, match="lakeward table upgrade"):
        plan_version_change("/t", config(9), None, 10, is_upgrade=False)
