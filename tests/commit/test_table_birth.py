"""A table comes to be whole or not at all, and only where there is nothing."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from pathlib import Path

import pytest

from lakeward.commit.table_birth import create_table
from lakeward.errors import Refused
from lakeward.storage.local import LocalStorage
from lakeward.table.new_table import NewTable
from lakeward.table.table_config import load_table_config
from tests.clocks import SkippingClock
from tests.faults import Fault, FaultKind, FaultyStorage, Killed

TABLE = NewTable(
    name="t",
    schema='{"type":"record","name":"t_record","fields":[{"name":"id","type":"string"}]}',
    record_key_fields=("id",),
)


def files(base: Path) -> list[Path]:
    return [path for path in base.rglob("*") if path.is_file()]


def is_whole(base: Path) -> bool:
    loaded = load_table_config(LocalStorage(), str(base), clock=SkippingClock())
    return loaded.checksum_ok and loaded.config.properties == TABLE.properties


def test_a_table_is_made_where_nothing_is(tmp_path: Path) -> None:
    create_table(LocalStorage(), str(tmp_path / "t"), TABLE)
    assert is_whole(tmp_path / "t")
    assert (tmp_path / "t/.hoodie/timeline/history").is_dir()
    assert len(files(tmp_path)) == 1


@pytest.mark.parametrize(
    "there", ["rows.parquet", ".hoodie/hoodie.properties", ".hoodie/timeline/1.commit", "p/", ".hoodie/own/"]
)
def test_nothing_is_made_where_anything_is(there: str, tmp_path: Path) -> None:
    """What is there stays as it is. Keeps 1 of commit/table_birth."""
    path = tmp_path / there
    (path if there.endswith("/") else path.parent).mkdir(parents=True, exist_ok=True)
    if not there.endswith("/"):
        path.touch()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(Refused, match="There is something already"):
        create_table(LocalStorage(), str(tmp_path), TABLE)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("kind", FaultKind)
def test_at_every_call_it_is_there_whole_or_not_at_all(kind: FaultKind, tmp_path: Path) -> None:
    """The next process goes on, or is told that there is a table. Keeps 2 of commit/table_birth."""
    trial = FaultyStorage()
    create_table(trial, str(tmp_path / "trial"), TABLE)
    assert len(trial.calls) > 6
    for call in range(len(trial.calls)):
        base = tmp_path / str(call)
        with suppress(Killed, OSError):
            create_table(FaultyStorage(Fault(kind, call)), str(base), TABLE)
        is_there = (base / ".hoodie/hoodie.properties").exists()
        assert not is_there or is_whole(base)
        with pytest.raises(Refused) if is_there else nullcontext():
            create_table(LocalStorage(), str(base), TABLE)
        assert is_whole(base)


def test_of_two_at_once_one_makes_it(tmp_path: Path) -> None:
    class Late(LocalStorage):
        """Another process is done between the look and the last step."""

        def make_folder(self, path: str) -> None:
            super().make_folder(path)
            if path.endswith(".temp"):
                (tmp_path / ".hoodie/hoodie.properties").write_bytes(b"of another\n")

    with pytest.raises(Refused, match="Another process created one"):
        create_table(Late(), str(tmp_path), TABLE)
    assert (tmp_path / ".hoodie/hoodie.properties").read_bytes() == b"of another\n"
