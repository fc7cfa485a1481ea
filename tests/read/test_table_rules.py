"""What a table's properties ask of its merge."""

from __future__ import annotations

from pathlib import Path

from lakeward.merge.rules.merge_rules import MergeMode, MergeRules, PartialUpdates
from lakeward.read.table_rules import merge_rules
from tests.golden_tables import copy_golden
from tests.our_reader import scan

PROPERTIES = """
hoodie.record.merge.mode=EVENT_TIME_ORDERING
hoodie.table.ordering.fields=b,a
hoodie.table.partial.update.mode=FILL_UNAVAILABLE
hoodie.record.merge.property.hoodie.write.partial.update.unavailable.value=?
hoodie.record.merge.property.hoodie.payload.delete.field=op
hoodie.record.merge.property.hoodie.payload.delete.marker=D
"""


def test_all_of_them(tmp_path: Path) -> None:
    """Each field in its place, none forgotten, and none where the table has none; what was not tried on other versions,
    or with other partial updates, is not taken there."""
    base = copy_golden("v9", tmp_path / "table")
    plain = MergeRules(MergeMode.EVENT_TIME_ORDERING, ("ts",), takes_operations=True, takes_partial_blocks=True)
    assert merge_rules(scan(base)) == plain

    properties = base / ".hoodie" / "hoodie.properties"
    properties.write_text(properties.read_text() + PROPERTIES)

    assert merge_rules(scan(base)) == MergeRules(
        MergeMode.EVENT_TIME_ORDERING,
        ("b", "a"),
        delete_field="op",
        delete_marker="D",
        partial_updates=PartialUpdates.FILL_UNAVAILABLE,
        unavailable="?",
        takes_operations=True,
    )
    properties.write_text(properties.read_text().replace("table.version=9", "table.version=8"))
    of_version_8 = merge_rules(scan(base))
    assert not of_version_8.takes_operations and not of_version_8.takes_partial_blocks
