from __future__ import annotations

from lakeward.daemon.scheduling.pauses import Control, ControlTarget, ControlTargetKind, Pauses

TABLE = ControlTarget(ControlTargetKind.TABLE, "a")
ETL = ControlTarget(ControlTargetKind.GROUP, "etl")
FILE_GROUP = ControlTarget(ControlTargetKind.FILE_GROUP, "a", ("p=1", "f1"))


def test_longest_pause_is_named():
    """The pause that lasts longest is named, of a table's and its group's."""
    pauses = Pauses()
    pauses.add(Control("1", TABLE, "short", until=10.0))
    pauses.add(Control("2", ETL, "long", until=20.0))
    assert pauses.of_table("a", "etl").reason == "long"

    pauses.add(Control("3", TABLE, "for good"))
    assert pauses.of_table("a", "etl").reason == "for good"
    assert pauses.of_table("b", "etl").reason == "long"
    assert pauses.of_table("b", "bi") is None


def test_expire():
    """A pause ends by itself at its time, and that of a file group is forgotten with it."""
    pauses = Pauses()
    pauses.add(Control("1", FILE_GROUP, "x", until=10.0))
    pauses.add(Control("2", TABLE, "y", until=20.0))
    assert pauses.next_expiry() == 10.0

    assert [pause.id for pause in pauses.expire(10.0)] == ["1"]
    assert pauses.file_groups("a") == ()
    assert [pause.id for pause in pauses.expire(20.0)] == ["2"]
    assert pauses.next_expiry() is None


def test_the_last_word_counts():
    """A new pause of a target takes the place of the one before, also when it is shorter."""
    pauses = Pauses()
    pauses.add(Control("1", TABLE, "for good"))
    pauses.add(Control("2", TABLE, "an hour will do", until=10.0))

    assert pauses.of_table("a", "default").reason == "an hour will do"
    assert [pause.id for pause in pauses.expire(10.0)] == ["2"]
    assert pauses.of_table("a", "default") is None


def test_lift():
    """A target's pause is lifted, and no other target's; a pause heard twice counts once."""
    pauses = Pauses()
    for control in (Control("1", TABLE, "x"), Control("1", TABLE, "x"), Control("2", FILE_GROUP, "y")):
        pauses.add(control)

    pauses.lift(TABLE)
    assert pauses.of_table("a", "default") is None
    assert pauses.file_groups("a") == (("p=1", "f1"),)

    pauses.lift(FILE_GROUP)
    pauses.lift(FILE_GROUP)
    assert pauses.file_groups("a") == ()
