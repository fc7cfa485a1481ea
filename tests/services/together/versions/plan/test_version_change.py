"""What an upgrade or a downgrade changes, from properties alone."""

from __future__ import annotations

import pytest

from lakeward.base.errors import Refused, UsageError
from lakeward.services.together.versions.plan.change_step import StepKind
from lakeward.services.together.versions.plan.native_files import NativeFiles, NativeObstacle
from lakeward.services.together.versions.plan.version_change import VersionChange, plan_version_change, plan_way_down
from lakeward.table.file_group import BaseFile, FileSlice
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
    """Keeps 1 of services/together/versions/plan/version_change; each has the mode of its own meta columns, and what is
    done already is left out."""
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
    """Keeps 2 of services/together/versions/plan/version_change."""
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
    """Keeps 4 of services/together/versions/plan/version_change, and what version 10 would read in another way."""
    with pytest.raises(Refused) as refused:
        upgrade(table, metadata)
    assert why in str(refused.value.why)


def test_the_way_to_hudi_is_shown() -> None:
    """Up by a write, down by its procedure; and there are versions that this release does not know."""
    with pytest.raises(Refused, match=r"hoodie\.write\.table\.version=9"):
        upgrade(config(8), target=9)
    with pytest.raises(Refused, match=r"between versions 9 and 8.*to_version => 'EIGHT'"):
        plan_version_change("/t", config(9), None, 8, is_upgrade=False)
    with pytest.raises(Refused, match=r"version 11\. It has version 10, and .* the versions 6 to 10"):
        upgrade(config(10), target=11)


def test_the_way_down_goes_around_no_native_log() -> None:
    """Keeps 3 of services/together/versions/plan/version_change: in the order in which no step writes what an earlier
    one took away; where nothing is native the metadata table stays."""
    failed = "1"
    slice_ = FileSlice("p", "f", "0", BaseFile("f", "0", "f_0-0-0_0.parquet", "p", 7, "0-0-0"), ())

    def kinds(natives: NativeFiles, *, failed: tuple[str, ...] = (), cleans: tuple[str, ...] = ()) -> list[str]:
        steps = plan_way_down("/t", failed, natives, pending_cleans=cleans, of_metadata=(), has_metadata=True)
        return [step.kind for step in steps]

    none = NativeFiles((), (), "", ())
    assert kinds(none) == []
    assert kinds(none, failed=(failed,), cleans=("2",)) == [StepKind.ROLLBACK, StepKind.CLEAN]
    assert kinds(NativeFiles((slice_,), (), "", ()), failed=(failed,)) == [
        StepKind.METADATA_TABLE,
        StepKind.ROLLBACK,
        StepKind.COMPACTION,
        StepKind.CLEAN,
    ]
    assert kinds(NativeFiles((), (slice_,), "0", ())) == [StepKind.METADATA_TABLE, StepKind.CLEAN]
    many = tuple(NativeObstacle(f"p/{n}", "it is set aside", "Purge it.") for n in range(21))
    with pytest.raises(Refused, match=r"p/19: it is set aside; and 1 more\. Purge it\. Then"):
        kinds(NativeFiles((slice_,), (), "", many))
    waiting = NativeFiles((), (), "", (), (NativeObstacle("p/1", "instant 3 is pending", "Have it rolled back."),))
    assert kinds(waiting, failed=(failed,)) == [StepKind.ROLLBACK]
    with pytest.raises(Refused, match="p/1: instant 3 is pending"):
        kinds(waiting)


def test_the_way_back_says_what_an_older_reader_knows() -> None:
    """The layout and the mode go, and the property that counted before is said again; a mode of some columns stays on a
    table that was there before version 10, and is refused on one that was not."""
    born = config(10, meta_fields_mode="NONE", table_storage_layout="default")
    (step,) = plan_version_change("/t", born, None, 9, is_upgrade=False).steps
    assert dict(step.changes) == {
        "hoodie.table.version": "9",
        "hoodie.table.storage.layout": None,
        "hoodie.populate.meta.fields": "false",
        MODE: None,
    }
    some = config(10, meta_fields_mode="FILE_NAME_ONLY", table_initial_version="9")
    (step,) = plan_version_change("/t", some, None, 9, is_upgrade=False).steps
    assert dict(step.changes) == {"hoodie.table.version": "9", "hoodie.populate.meta.fields": "false"}
    new = config(10, meta_fields_mode="FILE_NAME_ONLY", table_initial_version="10")
    with pytest.raises(Refused, match="does not know"):
        plan_version_change("/t", new, None, 9, is_upgrade=False)


def test_up_is_not_down() -> None:
    with pytest.raises(UsageError, match="lakeward table downgrade"):
        upgrade(config(10), target=9)
    with pytest.raises(UsageError, match="lakeward table upgrade"):
        plan_version_change("/t", config(9), None, 10, is_upgrade=False)
