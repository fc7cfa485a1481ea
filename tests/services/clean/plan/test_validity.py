"""What a clean's plan may still delete, by the table as it is now."""

from __future__ import annotations

import pytest

from lakeward.format.timeline.instant import State
from lakeward.services.clean.plan.validity import find_needed, groups_of_files
from lakeward.table.file_group import BaseFile, FileGroup, FileSlice, FrozenGroup
from lakeward.table.snapshot import TableSnapshot
from tests.synthetic_table import TOKEN, completed, minute, pending, snapshot_of


def name_of(number: int, file_id: str = "fg1") -> str:
    return f"{file_id}_{TOKEN}_{minute(number)}.parquet"


def slice_of(number: int) -> FileSlice:
    base = BaseFile("fg1", minute(number), name_of(number), "p", 100, TOKEN)
    return FileSlice("p", "fg1", minute(number), base, ())


GROUP = FileGroup("p", "fg1", tuple(slice_of(number) for number in (3, 2, 1)))
INSTANTS = [instant for number in (1, 2, 3) for instant in completed(minute(number), "commit")]
FILES = {"p": tuple(name_of(number) for number in (1, 2, 3))}


def needed(snapshot: TableSnapshot) -> set[str]:
    return {path.removeprefix("p/") for path in find_needed(snapshot, FILES)}


def test_only_what_readers_of_the_newest_slice_read_stays():
    """Older slices may go, whatever policy the plan was made by."""
    assert needed(snapshot_of([GROUP], INSTANTS)) == {name_of(3)}


def test_what_a_savepoint_names_stays():
    """It stays with its reason. Keeps 1 of services/clean/plan/validity."""
    snapshot = snapshot_of([GROUP], INSTANTS, savepointed={minute(1): frozenset({f"p/{name_of(1)}"})})

    assert needed(snapshot) == {name_of(1), name_of(3)}
    assert minute(1) in find_needed(snapshot, FILES)[f"p/{name_of(1)}"]


@pytest.mark.parametrize(
    ("action", "target", "stays"),
    [
        ("restore", None, True),
        ("rollback", minute(3), True),
        ("rollback", minute(9), True),
        ("rollback", minute(4), False),
    ],
)
def test_nothing_goes_while_older_slices_may_come_back(action: str, target: str | None, stays: bool):
    """A rollback of what never completed brings none back. Keeps 2 of services/clean/plan/validity."""
    instants = [*INSTANTS, *pending(minute(4), "commit"), *pending(minute(5), action, State.REQUESTED)]
    targets = {} if target is None else {minute(5): target}

    found = needed(snapshot_of([GROUP], instants, rollback_targets=targets))
    assert found == ({name_of(1), name_of(2), name_of(3)} if stays else {name_of(3)})


def test_what_no_committed_slice_explains_stays():
    """Files of frozen groups, of pending commits and of names that are no data file's. Keeps 3 of
    services/clean/plan/validity."""
    frozen = snapshot_of([], INSTANTS, frozen=(FrozenGroup("p", "fg1", minute(1), "it is torn"),))
    assert needed(frozen) == set(FILES["p"])
    uncommitted = snapshot_of([GROUP], INSTANTS, uncommitted_files=(f"p/{name_of(8)}",))
    named = {"p": (name_of(8), "x.parquet", name_of(1))}
    assert set(find_needed(uncommitted, named)) == {f"p/{name_of(8)}", "p/x.parquet"}


def test_groups_are_those_of_the_names():
    """They say which partitions must be listed."""
    assert set(groups_of_files({"p": (name_of(1), name_of(2)), "q": (name_of(1, "fg2"), "x")})) == {
        ("p", "fg1"),
        ("q", "fg2"),
    }
