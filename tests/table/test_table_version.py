"""What a table's version allows."""

from __future__ import annotations

import pytest

from lakeward.table.table_config import TableConfig
from lakeward.table.table_version import (
    COMPACTABLE_VERSIONS,
    LOG_COMPACTION_VERSION,
    RELEASED_VERSIONS,
    WRITABLE_VERSIONS,
    TableVersion,
)

ABILITIES = sorted(name for name in vars(TableVersion) if name.startswith("has_"))


@pytest.mark.parametrize(
    ("number", "layout", "writable"),
    [(None, 1, False), (6, 1, False), (7, 1, False), (8, 2, True), (9, 2, True), (10, 2, True), (11, 2, False)],
)
def test_which_versions_are_writable(number: int | None, layout: int, writable: bool):
    """Keeps 1 of table/table_version: no number and unknown numbers are not writable; layout 2 came with version 8."""
    version = TableVersion(number)

    assert (version.timeline_layout, version.is_writable) == (layout, writable)
    assert version.is_too_new == (number == 11)
    assert (str(number) in WRITABLE_VERSIONS.replace(",", "").split()) == writable
    assert (str(number) in RELEASED_VERSIONS.split()) == (writable and number != 10)
    assert (
        version.is_compactable
        == (number in (6, 8, 9, 10))
        == (str(number) in COMPACTABLE_VERSIONS.replace(",", "").split())
    )


@pytest.mark.parametrize(
    ("number", "abilities"),
    [
        (None, set()),
        (6, set()),
        (8, {"has_stored_merge_mode", "has_logs_of_one_write"}),
        (9, set(ABILITIES) - {"has_hybrid_plans", "has_native_logs", "has_meta_fields_mode"}),
        (10, set(ABILITIES)),
    ],
)
def test_abilities(number: int | None, abilities: set[str]):
    """Keeps 2 of table/table_version: each version has what the one before it had."""
    assert {name for name in ABILITIES if getattr(TableVersion(number), name)} == abilities


def test_what_messages_name():
    """The version that messages name for log compaction is the first that has it."""
    first = int(LOG_COMPACTION_VERSION)
    assert TableVersion(first).has_log_compaction and not TableVersion(first - 1).has_log_compaction


@pytest.mark.parametrize(("number", "checks"), [(6, False), (8, True), (9, False)])
def test_only_version_8_checks_the_merge_strategy(number: int, checks: bool):
    """Before, the payload class decides, and later the mode alone."""
    assert TableVersion(number).checks_merge_strategy == checks


@pytest.mark.parametrize(
    ("layout", "writable"), [(None, True), ("2", True), ("1", False), ("3", False)], ids=["none", "2", "1", "3"]
)
def test_a_layout_that_contradicts_the_version_is_not_written(layout: str | None, writable: bool):
    """An upgrade that stopped half-way may leave such a table."""
    properties = {"hoodie.table.version": "9"}
    if layout is not None:
        properties["hoodie.timeline.layout.version"] = layout

    assert TableConfig(properties).is_writable == writable
