"""Partitions one below another: where the metadata table knows of them all goes on; elsewhere nothing is hidden."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from lakeward.base.clock import SystemClock
from lakeward.base.errors import BrokenFile, LakewardError, Refused, UsageError
from lakeward.cli.main import run
from lakeward.protocol.lock.lock_choice import stopped_writers_options
from lakeward.protocol.owner import Processes
from lakeward.services.metadata.run.removal import remove_metadata
from lakeward.services.together.inspection import inspect_table
from lakeward.services.together.restore.run.restore import restore
from lakeward.services.verification.table_verification import check_table
from lakeward.storage.local import LocalStorage
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.watching.incremental_view import IncrementalView
from tests.clocks import SkippingClock
from tests.metadata_golden import set_property
from tests.our_reader import read_rows, scan
from tests.processes import LookedOn, ScriptedProcesses
from tests.services.metadata.run.compacting_metadata import serviced_table
from tests.services.rollback.run.failed_tables import fail_last_write, roll_back
from tests.write.test_whole_write import everything
from tests.write.writing import Row, new_table, values, write

ROWS: list[Row] = [("k0", 1, "p", "a"), ("k1", 1, "p/x", "a"), ("k2", 1, "q", "a")]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    base = new_table(tmp_path / "t")
    write(base, ROWS)
    return base


def copy_below(base: Path, path: str = "p", name: str = "_bak") -> Path:
    return Path(shutil.copytree(base / path, base / path / name))


def refused(base: Path, rows: list[Row], operation: str = "upsert") -> LakewardError:
    """The write is refused, and leaves the table as it was."""
    before = everything(base)
    with pytest.raises((Refused, UsageError)) as error:
        write(base, rows, operation)
    left = everything(base)
    assert {name for name in left.keys() ^ before.keys() if not name.startswith(".hoodie/.lakeward")} == set()
    assert not scan(base).timeline.pending
    return error.value


def test_they_are_written_where_the_metadata_table_lists_them(base: Path) -> None:
    """A key of the lower one is updated, deleted and replaced as any other."""
    write(base, [("k1", 2, "p/x", "b"), ("k3", 1, "p/x/y", "b")])
    assert values(read_rows(base)) == {"k0": "a", "k1": "b", "k2": "a", "k3": "b"}
    assert scan(base).partitions == ("p", "p/x", "p/x/y", "q")
    write(base, [("k3", 9, "p/x/y", None)], "delete")
    assert values(read_rows(base)) == {"k0": "a", "k1": "b", "k2": "a"}
    write(base, [("k4", 1, "q", "all")], "insert_overwrite_table")
    assert values(read_rows(base)) == {"k4": "all"}


def test_a_daemon_learns_of_them(base: Path) -> None:
    """A view that watches the table has what a scan has, also of one that comes while it watches."""
    view = IncrementalView(LocalStorage(), str(base), timezone="UTC", clock=SkippingClock())
    assert view.snapshot().partitions == ("p", "p/x", "q")
    write(base, [("k5", 1, "q/z", "a"), ("k1", 2, "p/x", "b")])
    copy_below(base)
    view.refresh()
    assert (view.snapshot().partitions, view.snapshot().unlisted) == (("p", "p/x", "q", "q/z"), scan(base).unlisted)
    assert view.snapshot() == scan(base)


def test_a_failed_write_of_a_new_one_is_rolled_back(base: Path) -> None:
    """Its files go, those of the copy beside it stay."""
    copied = copy_below(base)
    shutil.move(copied, base.parent / "aside")
    write(base, [("k5", 1, "p/new", "a")])
    fail_last_write(base)
    shutil.move(base.parent / "aside", copied)
    before = everything(copied)

    roll_back(base, LocalStorage())

    assert [path.name for path in (base / "p/new").iterdir()] == [".hoodie_partition_metadata"]
    assert everything(copied) == before
    assert values(read_rows(base)) == {"k0": "a", "k1": "a", "k2": "a"}


def test_unlisted_folders_are_named_and_their_partition_is_not_written(
    base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A copy below a partition, and another table: `inspect` and `verify` name them, other partitions take writes."""
    copy_below(base)
    shutil.copytree(base / ".hoodie", base / "p/x/other/.hoodie")
    assert [folder["path"] for folder in report(base)["unlisted_folders"]] == ["p/_bak", "p/x/other"]

    run(["inspect", str(base), "--timezone", "UTC"])
    printed = " ".join(capsys.readouterr().out.split())
    assert "p/_bak lies in partition 'p', is none itself and holds data files; writes to that partition" in printed

    def now() -> TableSnapshot:
        return scan(base)

    problems = check_table(LocalStorage(), now, clock=SystemClock()).problems
    assert [(problem.subject, problem.what) for problem in problems] == [
        ("p/_bak", "It lies in partition 'p' and holds data files, and is no partition that the table's readers see."),
        (
            "p/x/other",
            "It lies in partition 'p/x' and holds another table, and is no partition that the table's readers see.",
        ),
    ]
    error = refused(base, [("k0", 2, "p", "b")])
    assert error.what == "Partition 'p' is not written: the folder 'p/_bak' lies in partition 'p' and holds data files."
    refused(base, [("n", 2, "p/_bak/x", "b")])
    assert "lies in partition 'p/x' and holds another table" in refused(base, [("k1", 2, "p/x", "b")]).what
    refused(base, [("n", 2, "q", "b")], "insert_overwrite_table")
    write(base, [("k2", 2, "q", "b")])
    assert values(read_rows(base)) == {"k0": "a", "k1": "a", "k2": "b"}


def report(base: Path) -> dict[str, Any]:
    return inspect_table(LocalStorage(), str(base), timezone="UTC", clock=SkippingClock())


@pytest.mark.parametrize(
    "rows", [[("n", 1, "p/x", "a")], [("n", 1, "r", "a")], [("n", 1, "s", ""), ("m", 1, "s/t", "")]]
)
def test_without_a_metadata_table_no_partition_is_begun_above_or_below_one(tmp_path: Path, rows: list[Row]) -> None:
    """Hudi's readers would not find the rows of the lower one. Keeps 4 of write/placement."""
    base = new_table(tmp_path / "t", has_metadata_table=False)
    write(base, [("k0", 1, "p", "a"), ("k1", 1, "r/x", "a")])
    lower = {"p/x": "p", "r": "r", "s": "s"}[rows[0][2]]
    error = refused(base, rows)
    assert f"would lie below partition '{lower}'" in error.what
    write(base, [("k0", 2, "p", "b"), ("k2", 1, "px", "b")])
    assert values(read_rows(base)) == {"k0": "b", "k1": "a", "k2": "b"}


@pytest.mark.parametrize("path", [".hoodie", ".hoodie/x", "a/.hoodie"])
def test_no_partition_is_named_as_the_folder_of_the_timeline(base: Path, path: str) -> None:
    """Nothing looks for rows there."""
    assert f"its path would be '{path}'" in refused(base, [("n", 1, path, "a")]).what


def test_the_metadata_table_stays_where_it_alone_knows_of_them(base: Path) -> None:
    """Disabling it would hide rows, and a restore takes it away. Keeps 3 of services/metadata/run/removal."""
    first = scan(base).timeline.completed_writes[0].time
    write(base, [("k1", 2, "p/x", "b")])
    before = everything(base)
    with pytest.raises(Refused, match=r"must stay\. Without it no reader finds the rows of partition 'p/x'"):
        remove_metadata(
            LocalStorage(),
            str(base),
            None,
            lock=stopped_writers_options(wait_seconds=0),
            clock=SystemClock(),
            processes=Processes(),
        )
    processes = ScriptedProcesses()
    processes.stillness = LookedOn()
    with pytest.raises(Refused, match="must stay"):
        restore(serviced_table(str(base), LocalStorage(), processes), first)
    assert everything(base) == before


def test_a_list_that_cannot_be_read_is_said(base: Path) -> None:
    """Nothing goes on without the partitions that only it knows of; a table without such asks for no list."""
    for path in (base / ".hoodie/metadata/files").iterdir():
        if not path.name.startswith(".hoodie"):
            path.unlink()
    with pytest.raises(BrokenFile, match="may be partitions, and the list of these cannot be read"):
        scan(base)
    shutil.rmtree(base / "p/x")
    assert scan(base).partitions == ("p", "q")


def test_without_the_list_what_lies_below_is_stray(base: Path) -> None:
    """Readers of Hudi's do not find it any more either."""
    set_property(base, "hoodie.table.metadata.partitions", "")
    assert scan(base).partitions == ("p", "q")
    assert [folder.path for folder in scan(base).unlisted] == ["p/x"]
    refused(base, [("k1", 2, "p/x", "b")])
