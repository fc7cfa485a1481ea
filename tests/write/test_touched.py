"""What other instants say that they touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.base.errors import BrokenFile
from lakeward.format.timeline.instant import Instant, parse_instant
from lakeward.storage.local import LocalStorage
from lakeward.table.timeline.instant_content import InstantContents
from lakeward.write.write_run import read_touched
from tests.golden_tables import copy_golden
from tests.our_reader import scan

GOLDEN = Path(__file__).parents[1] / "golden/timeline"
CLUSTERED = {
    ("2024/01", "3c25db13-7685-4118-aa74-20343e013d45-0"),
    ("2024/01", "07cf0f1c-8851-458d-a4c0-7cf895e0d261-0"),
    ("2024/02", "4b64a59b-5222-4714-882f-87684788ebdd-0"),
}


def touched(base: Path, instant: Instant) -> tuple[frozenset[tuple[str, str]], str | None]:
    snapshot = scan(base)
    contents = InstantContents(LocalStorage(), str(base), snapshot.config, snapshot.timeline)
    found = read_touched(contents, snapshot.config, instant)
    return found.groups, found.operation_type


def parsed(name: str) -> Instant:
    instant = parse_instant(name, 2)
    assert instant is not None
    return instant


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return copy_golden("v9", tmp_path / "t")


def test_a_completed_write_says_its_groups(table: Path) -> None:
    """It says what it did, too."""
    newest = scan(table).timeline.completed_writes[-1]
    groups, operation = touched(table, newest)
    assert groups and operation in ("UPSERT", "DELETE")


def test_a_clustering_says_what_it_takes(table: Path) -> None:
    """Pending by its plan, completed by what it replaced, too."""
    timeline = table / ".hoodie/timeline"
    plan = (GOLDEN / "20261121072052461.clustering.requested").read_bytes()
    (timeline / "20261121072052461.clustering.requested").write_bytes(plan)
    assert touched(table, parsed("20261121072052461.clustering.requested")) == (CLUSTERED, None)
    name = "20261121072052461_20261121072053084.replacecommit"
    (timeline / name).write_bytes((GOLDEN / name).read_bytes())
    done = next(each for each in scan(table).timeline.completed_writes if each.time == "20261121072052461")
    groups, operation = touched(table, done)
    assert groups > CLUSTERED and operation == "CLUSTER"


def test_an_overwrite_that_knows_nothing_yet(table: Path) -> None:
    """It finds Lakeward's when it commits."""
    name = "20261121072053168.replacecommit.requested"
    (table / ".hoodie/timeline" / name).write_bytes((GOLDEN / name).read_bytes())
    assert touched(table, parsed(name)) == (frozenset(), None)


def test_what_cannot_be_read_is_an_error(table: Path) -> None:
    """It may have touched anything. Keeps 4 of write/write_run."""
    newest = scan(table).timeline.completed_writes[-1]
    (table / ".hoodie/timeline" / newest.file_name).write_bytes(b"Obj\x01torn")
    with pytest.raises(BrokenFile):
        touched(table, newest)
