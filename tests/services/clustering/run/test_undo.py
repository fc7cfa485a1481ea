"""The newest clustering is undone, whatever was written to other file groups meanwhile."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from lakeward.base.errors import Conflict, Refused
from lakeward.cli.main import run
from lakeward.engine.dispatch.dispatcher import Dispatcher
from lakeward.engine.dispatch.in_process import InProcessDispatcher
from lakeward.merge.digest import Digest
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.clustering.plan.layout import ClusterMode, Layout
from lakeward.services.clustering.plan.pack_options import PackOptions
from lakeward.services.clustering.run import returned_rows
from lakeward.services.clustering.run.layout_records import load_layout_records
from lakeward.services.clustering.run.tasks import run_task
from lakeward.services.clustering.run.undo import UndoneClustering, preview_undo, undo_clustering
from lakeward.storage.local import LocalStorage
from lakeward.table.new_table import COPY_ON_WRITE, MERGE_ON_READ
from tests.crash.metadata_compacting import check_agrees
from tests.our_reader import read_rows, scan
from tests.processes import ScriptedProcesses
from tests.services.clean.run.cleaning import clean, data_files
from tests.services.clustering.run.packing import pack
from tests.services.clustering.run.test_clusterer import (
    APART,
    BY_METADATA,
    FEW,
    SHARED,
    check_untouched,
    made,
    meanwhile,
    newest_commit,
)
from tests.services.metadata.run.compacting_metadata import serviced_table
from tests.write.writing import values, write


def serviced(base: Path, **options: Any) -> ServicedTable:
    return serviced_table(str(base), LocalStorage(), ScriptedProcesses(), **options)


def undo(
    of: Path | ServicedTable, act: Callable[[int], Dispatcher] = lambda _: InProcessDispatcher()
) -> UndoneClustering:
    table = of if isinstance(of, ServicedTable) else serviced(of)
    return undo_clustering(table, act, partial(run_task, table.storage))


def preview(base: Path) -> UndoneClustering:
    return preview_undo(serviced(base))


def slices(base: Path) -> Counter[tuple[str, ...]]:
    """The keys of each base file that has no logs over it, in their order."""
    found = (each.base_file for each in scan(base).latest_slices if not each.log_files)
    return Counter(
        tuple(pq.read_table(base / file.path, columns=["id"]).column(0).to_pylist()) for file in found if file
    )


@pytest.mark.parametrize("table_type", [COPY_ON_WRITE, MERGE_ON_READ])
def test_rows_are_in_file_groups_as_before(tmp_path: Path, table_type: str) -> None:
    """Keeps 1 of services/clustering/run/undo and Keeps 1 of services/clustering/run/returned_rows: though rows were
    written elsewhere since, and a clean set aside what was replaced. The metadata table agrees, and its record index
    finds each key; writers go on. Then there is nothing to undo."""
    base = made(tmp_path / "t", table_type, indexed=True)
    before, groups = read_rows(base), slices(base)
    instant = pack(base, packing=FEW).instant
    write(base, [("r1", 1, "r", "later")], "insert", **BY_METADATA)
    later = [row for row in read_rows(base) if row["id"] == "r1"]
    clean(base, LocalStorage(), keep_seconds=3600.0)
    files = data_files(base)
    assert preview(base).clustering == instant and data_files(base) == files
    done = undo(base)
    assert (done.clustering, done.report.output_groups, done.report.rows) == (instant, 6, len(before))
    assert sorted(read_rows(base), key=str) == sorted([*before, *later], key=str)
    assert sum(len(keys) for keys in slices(base)) == len(before) + 1 and groups < slices(base)
    check_agrees(base)
    write(base, [("p01", 7, "p", "after"), ("r1", 7, "r", "after")], **BY_METADATA)
    assert values(read_rows(base)) == values([*before, *later]) | {"p01": "after", "r1": "after"}
    check_agrees(base)
    with pytest.raises(Refused, match="not undone already"):
        undo(base)


def test_what_was_written_to_its_groups_is_not_lost(tmp_path: Path) -> None:
    """Keeps 1 of services/clustering/plan/clustering_undo: refused, with the file group and the write. So it is once
    another clustering replaced one of them."""
    base = made(tmp_path / "t")
    pack(base, packing=FEW)
    write(base, [("p21", 9, "p", "later")], **APART)
    rows, newest = read_rows(base), scan(base).timeline.completed_writes[-1].time
    (group,) = (each.file_id for each in scan(base).latest_slices if each.log_files)
    for act in (preview, undo):
        with pytest.raises(Refused, match=f"{newest} wrote to it, file group {group} of partition p"):
            act(base)
    assert read_rows(base) == rows
    again = pack(base, packing=PackOptions(groups_min=1, layout=Layout(ClusterMode.SORT, ("v",)))).instant
    assert undo(base).clustering == again
    with pytest.raises(Refused, match=f"{again} replaced it, file group {group}"):
        undo(base)
    assert sorted(read_rows(base), key=str) == sorted(rows, key=str)


def test_an_undone_clustering_is_passed_over(tmp_path: Path) -> None:
    """Keeps 4 of services/clustering/run/undo: of two, the second undo is of the first."""
    base = made(tmp_path / "t")
    groups, before = slices(base), read_rows(base)
    first, second = (pack(base, packing=FEW, partitions={path}).instant for path in ("p", "q"))
    assert [undo(base).clustering for _ in range(2)] == [second, first]
    assert read_rows(base) == before and groups < slices(base) and len(scan(base).latest_slices) == 6


def test_files_that_are_gone(tmp_path: Path) -> None:
    """Keeps 2 of services/clustering/plan/clustering_undo: a clean deleted what was replaced."""
    base = made(tmp_path / "t")
    replaced = {each.file_id for each in scan(base).latest_slices}
    pack(base, packing=FEW)
    clean(base, LocalStorage())
    rows = read_rows(base)
    for act in (preview, undo):
        with pytest.raises(Refused, match="which it replaced, is not there any more") as refused:
            act(base)
        assert any(each in str(refused.value) for each in replaced) and "keep-deleted" in (refused.value.remedy or "")
    check_untouched(base, rows)


def test_a_write_to_its_groups_meanwhile(tmp_path: Path) -> None:
    """Keeps 3 of services/clustering/run/undo: what it wrote is not lost."""
    base = made(tmp_path / "t")
    pack(base, packing=FEW)
    table = serviced(base, **SHARED)
    act = meanwhile(lambda: write(base, [("p21", 9, "p", "meanwhile")], clock=table.clock, **APART))
    with pytest.raises(Conflict, match="met another writer"):
        undo(table, act)
    assert values(read_rows(base))["p21"] == "meanwhile"
    check_untouched(base, read_rows(base))


def test_rows_that_differ_are_not_brought_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps 2 of services/clustering/run/undo and Keeps 2 of services/clustering/run/returned_rows: no file is
    written."""
    base = made(tmp_path / "t")
    pack(base, packing=FEW)
    rows, before = read_rows(base), {each.group_id for each in scan(base).latest_slices}

    class Lossy(Digest):
        def take_hashes(self, batch: Any) -> Any:
            return super().take_hashes(batch.slice(1) if batch.num_rows == 2 else batch)

    monkeypatch.setattr(returned_rows, "Digest", Lossy)
    with pytest.raises(Refused, match="it made other rows than those of the file groups that it replaced"):
        undo(base)
    assert {each.group_id for each in scan(base).latest_slices} == before
    check_untouched(base, rows)


def test_layouts_come_back(tmp_path: Path) -> None:
    """Keeps 5 of services/clustering/run/undo: of two clusterings by columns the second, over all, is undone; then a
    file group has the record of the first, and is not taken again."""
    base, storage = made(tmp_path / "t", COPY_ON_WRITE, writes=6), LocalStorage()
    by = {
        path: PackOptions(groups_min=2, layout=Layout(ClusterMode.SORT, (name,)))
        for path, name in (("p", "v"), ("q", "ts"))
    }
    for path, options in by.items():
        pack(base, packing=options, partitions={path})
    known = {each.group_id[0]: each.layout for each in load_layout_records(storage, str(base), scan(base)).values()}
    pack(base, packing=PackOptions(groups_min=1, layout=Layout(ClusterMode.SORT, ("id",)), again=True))
    undo(base)
    assert newest_commit(base).extra_metadata["lakeward.layout"][0] == "["
    records = load_layout_records(storage, str(base), scan(base))
    assert {each.group_id[0]: each.layout for each in records.values()} == known and len(known) == 2
    assert pack(base, packing=by["p"], partitions={"p"}).instant is None


def test_the_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It goes with no other choice, and says of a dry run what would be."""
    base = made(tmp_path / "t", COPY_ON_WRITE, indexed=True)
    before = read_rows(base)
    instant = pack(base, packing=FEW).instant
    packed = data_files(base)
    words = ["cluster", str(base), "--undo"]
    assert run([*words, "--by", "v", "--writers", "stopped"]) == 2
    assert "--undo goes with no choice of file groups or columns." in capsys.readouterr().err
    assert run([*words, "--dry-run"]) == 0
    assert f"Would undo clustering {instant}: 2 file groups, " in capsys.readouterr().out
    assert data_files(base) == packed
    assert run([*words, "--writers", "stopped", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["undone"], document["dry_run"]) == (instant, False)
    assert (document["input_groups"], document["output_groups"], document["rows"]) == (2, 6, len(before))
    assert read_rows(base) == before
