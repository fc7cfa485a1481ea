"""Timeline file names, in both layouts."""

from __future__ import annotations

from datetime import UTC, timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.base.errors import BrokenFile
from lakeward.format.timeline.instant import (
    Instant,
    State,
    comparable_time,
    format_instant_time,
    instant_file_name,
    parse_instant,
    parse_instant_time,
)

GOLDEN = Path(__file__).parents[2] / "golden"
T = "20261121043703223"
C = "20261121043705979"

COMPLETED_ACTIONS = [
    "commit",
    "deltacommit",
    "replacecommit",
    "clean",
    "rollback",
    "restore",
    "savepoint",
    "indexing",
    "schemacommit",
]
PENDING_ACTIONS = [
    *(action for action in COMPLETED_ACTIONS if action != "savepoint"),
    "compaction",
    "logcompaction",
    "clustering",
]

digits = st.text("0123456789", min_size=1, max_size=20)


@pytest.mark.parametrize(
    ("name", "layout", "action", "state", "completion_time"),
    [
        (f"{T}.commit.requested", 2, "commit", State.REQUESTED, None),
        (f"{T}.inflight", 1, "commit", State.INFLIGHT, None),
        (f"{T}.inflight", 2, "commit", State.INFLIGHT, None),
        (f"{T}.commit", 1, "commit", State.COMPLETED, None),
        (f"{T}_{C}.commit", 2, "commit", State.COMPLETED, C),
        (f"{T}_{C}.deltacommit", 2, "deltacommit", State.COMPLETED, C),
        (f"{T}.compaction.requested", 1, "compaction", State.REQUESTED, None),
        (f"{T}.logcompaction.inflight", 2, "logcompaction", State.INFLIGHT, None),
        (f"{T}.clustering.requested", 2, "clustering", State.REQUESTED, None),
        (f"{T}.savepoint.inflight", 2, "savepoint", State.INFLIGHT, None),
        (f"{T}_{C}.indexing", 2, "indexing", State.COMPLETED, C),
        ("20201121043703.clean", 1, "clean", State.COMPLETED, None),
        ("00000000000001.commit", 1, "commit", State.COMPLETED, None),
    ],
)
def test_names_say_time_action_and_state(
    name: str, layout: int, action: str, state: State, completion_time: str | None
) -> None:
    """Every state of every action follows from its name alone."""
    time = name.partition(".")[0].partition("_")[0]
    assert parse_instant(name, layout) == Instant(time, action, state, completion_time, name)


def test_completed_file_of_layout_2_may_lack_its_completion_time() -> None:
    """What early releases left in layout 2 is an instant, completed at a time that its name does not say."""
    assert parse_instant(f"{T}.commit", 2) == Instant(T, "commit", State.COMPLETED, None, f"{T}.commit")


@pytest.mark.parametrize(
    ("name", "layout"),
    [
        ("hoodie.properties", 1),
        ("history", 2),
        (f"{T}.commit.requested.0f6e0b7e-5f5a-4a5b-8d5e-b4a0f2f2a3d1", 2),
        (f"{T}_{C}.commit.0f6e0b7e-5f5a-4a5b-8d5e-b4a0f2f2a3d1", 2),
        (f".{T}.commit.crc", 1),
        (f"{T}.commit.inflight", 2),  # a commit's inflight file is called .inflight
        (f"{T}.compaction", 2),  # it completes as commit
        (f"{T}_{C}.logcompaction", 2),
        (f"{T}.savepoint.requested", 2),
        (f"{T}_{C}.commit", 1),
        (f"{T}_{C}.commit.requested", 2),
        (f"{T}_{C}.inflight", 2),
        (f"{T}.requested", 2),
        (f"{T}.nonsense", 1),
        (f"{T}.commit\n", 1),
        (f"{T}\u0663.commit", 1),  # a digit, though not one of Lakeward's
        (f"../{T}.commit", 1),
        (f"{T}_.commit", 2),
        ("", 2),
    ],
)
def test_everything_else_is_no_timeline_file(name: str, layout: int) -> None:
    """Temporary names, checksums, and combinations that Hudi does not write are not read as instants."""
    assert parse_instant(name, layout) is None


@given(st.sampled_from([1, 2]), digits, digits, st.data())
def test_name_and_value_are_the_same_thing(layout: int, time: str, completion_time: str, data: st.DataObject) -> None:
    """Parsing a formatted name gives back what was formatted."""
    state = data.draw(st.sampled_from(list(State)))
    action = data.draw(st.sampled_from(COMPLETED_ACTIONS if state is State.COMPLETED else PENDING_ACTIONS))
    completed = completion_time if layout == 2 and state is State.COMPLETED else None

    name = instant_file_name(time, action, state, layout, completed)

    assert parse_instant(name, layout) == Instant(time, action, state, completed, name)


@given(st.text("0123456789_.abcdefghijklmnopqrstuvwxyz", max_size=40), st.sampled_from([1, 2]))
def test_only_hudis_encoding_is_parsed(name: str, layout: int) -> None:
    """What is parsed is formatted the same again, except for legacy names without their completion time."""
    instant = parse_instant(name, layout)
    if instant is None or (layout == 2 and instant.state is State.COMPLETED and instant.completion_time is None):
        return
    assert instant_file_name(instant.time, instant.action, instant.state, layout, instant.completion_time) == name


@pytest.mark.parametrize(
    ("time", "action", "state", "layout", "completion_time"),
    [
        (T, "commit", State.COMPLETED, 2, None),
        (T, "commit", State.COMPLETED, 1, C),
        (T, "commit", State.REQUESTED, 2, C),
        (T, "compaction", State.COMPLETED, 2, C),
        (T, "savepoint", State.REQUESTED, 2, None),
        ("../x", "commit", State.REQUESTED, 2, None),
    ],
)
def test_no_name_is_encoded_that_would_not_be_read(
    time: str, action: str, state: State, layout: int, completion_time: str | None
) -> None:
    """A name that Hudi would ignore, or whose completion time is missing, is a mistake of Lakeward."""
    with pytest.raises(AssertionError):
        instant_file_name(time, action, state, layout, completion_time)


@pytest.mark.parametrize(
    ("pending", "completed"),
    [("compaction", "commit"), ("logcompaction", "deltacommit"), ("clustering", "replacecommit"), ("clean", "clean")],
)
def test_pending_and_completed_action_compare_equal(pending: str, completed: str) -> None:
    """The states of one instant have one comparable action, whatever its files are called."""
    requested = parse_instant(f"{T}.{pending}.requested", 2)
    done = parse_instant(f"{T}_{C}.{completed}", 2)

    assert requested is not None and done is not None
    assert requested.comparable_action == done.comparable_action == completed


@pytest.mark.parametrize(("folder", "layout"), [("v6/table/.hoodie", 1), ("v9/table/.hoodie/timeline", 2)])
def test_hudis_own_timelines_are_understood(folder: str, layout: int) -> None:
    """Every timeline file of a real table is parsed, and its name given back."""
    names = sorted(path.name for path in (GOLDEN / folder).iterdir() if path.name != "hoodie.properties")
    instants = [parse_instant(name, layout) for name in names]

    assert len(names) == 13
    for name, instant in zip(names, instants, strict=True):
        assert instant is not None, name
        assert instant_file_name(instant.time, instant.action, instant.state, layout, instant.completion_time) == name


def test_legacy_instants_compare_as_the_last_of_their_milliseconds() -> None:
    """Fourteen digits compare as if 999 were appended; all other times as they are."""
    assert comparable_time("20201121043703") == "20201121043703999"
    assert "20201121043703998" < comparable_time("20201121043703") < "20201121043704000"
    assert comparable_time(T) == T
    assert comparable_time("001") == "001"


def test_instant_times_are_in_the_zone_of_their_writer() -> None:
    """One moment has one name in each zone."""
    moment = 1_795_235_823_223  # 2026-11-21 04:37:03.223 UTC
    assert format_instant_time(moment, UTC) == T
    assert format_instant_time(moment, timezone(timedelta(hours=5, minutes=45))) == "20261121102203223"
    assert format_instant_time(moment, ZoneInfo("America/New_York")) == "20261120233703223"
    assert parse_instant_time(T, UTC) == moment
    assert parse_instant_time("20261120233703223", ZoneInfo("America/New_York")) == moment


def test_hour_that_happens_twice_is_its_first() -> None:
    """When summer time ends, a name is read as Java reads it: as the earlier of its two moments."""
    assert parse_instant_time("20261025023000000", ZoneInfo("Europe/Berlin")) == parse_instant_time(
        "20261025003000000", UTC
    )


@given(st.integers(-2_000_000_000_000, 32_000_000_000_000), st.integers(-14 * 60, 14 * 60))
def test_moment_survives_its_name(moment: int, offset_minutes: int) -> None:
    """A moment, formatted in a zone without summer time and read again, is the same to the millisecond."""
    zone = timezone(timedelta(minutes=offset_minutes))
    assert parse_instant_time(format_instant_time(moment, zone), zone) == moment


@pytest.mark.parametrize(
    "time", ["00000000000000002", "00000000000001", "20261321043703223", "", "today", "2026112104"]
)
def test_reserved_instants_are_no_moments(time: str) -> None:
    """The instants of initialisation, and text, have no place on a clock."""
    with pytest.raises(BrokenFile):
        parse_instant_time(time, UTC)
