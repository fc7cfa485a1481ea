"""What completed rollbacks and restores of released Hudi say that they undid."""

from lakeward.format.timeline.rollback_metadata import read_undone
from tests.golden_tables import GOLDEN

ROLLBACK = "20261122170649631_20261122170650357.rollback"
RESTORE = "20261122212602913_20261122212606249.restore"


def undone(name):
    return read_undone((GOLDEN / "timeline" / name).read_bytes(), file=name, native=False)


def test_a_rollback():
    """It names one instant, and the file groups of the files that it deleted."""
    found = undone(ROLLBACK)

    assert found.instants == {"20261122170645766": "deltacommit"}
    assert sorted((path, file_id[:8]) for path, file_id in found.groups) == [
        ("p0", "727a6217"),
        ("p0", "fbfaa4ba"),
        ("p1", "5e99c978"),
        ("p1", "a6d88534"),
    ]


def test_a_restore():
    """It consists of rollbacks, pending plans and replaced groups among them, each with its action."""
    found = undone(RESTORE)

    assert sorted(found.instants.values()) == ["commit", "compaction", *["deltacommit"] * 4, "replacecommit"]
    assert found.instants["20261122212549191"] == "replacecommit"
    assert len(found.groups) == 8 and {path for path, _ in found.groups} == {"p0", "p1"}
