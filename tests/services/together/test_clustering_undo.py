"""The newest clustering is undone, and nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from lakeward.base.errors import Refused, TryLater
from lakeward.cli.main import run
from lakeward.cli.services import cluster_command
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.protocol.writers_conflict import YieldOptions
from lakeward.services.clustering.run.clusterer import cluster
from lakeward.services.clustering.run.tasks import run_task
from lakeward.services.together import clustering_undo
from lakeward.services.together.clustering_undo import preview_undo, undo_clustering
from lakeward.storage.local import LocalStorage
from lakeward.table.new_table import COPY_ON_WRITE, MERGE_ON_READ
from tests.our_reader import read_rows, scan
from tests.processes import ScriptedProcesses
from tests.services.clean.run.cleaning import clean, data_files
from tests.services.clustering.run.packing import pack
from tests.services.clustering.run.test_clusterer import APART, FEW, SHARED, made, meanwhile, pending_write
from tests.services.metadata.run.compacting_metadata import serviced_table
from tests.write.writing import write


def at(base: Path) -> ServicedTable:
    return serviced_table(str(base), LocalStorage(), ScriptedProcesses())


@pytest.mark.parametrize("table_type", [COPY_ON_WRITE, MERGE_ON_READ])
def test_the_replaced_file_groups_are_the_tables_again(tmp_path: Path, table_type: str) -> None:
    """Also those that a clean set aside; a dry run writes nothing; a second undo has nothing to undo."""
    base = made(tmp_path / "t", table_type, indexed=True)
    before, groups, files = read_rows(base), {each.group_id for each in scan(base).latest_slices}, data_files(base)
    instant = pack(base, packing=FEW).instant
    clean(base, LocalStorage(), keep_seconds=3600.0)
    packed = data_files(base)
    assert preview_undo(at(base)).clustering == instant and data_files(base) == packed
    done = undo_clustering(at(base))
    assert done.clustering == instant and done.restored is not None
    assert {each.group_id for each in scan(base).latest_slices} == groups
    assert read_rows(base) == before and files <= data_files(base)
    with pytest.raises(Refused, match="none on the active timeline"):
        undo_clustering(at(base))


def test_what_was_written_later_is_not_lost(tmp_path: Path) -> None:
    """Keeps 2 of services/together/clustering_undo: refused, with the write's name."""
    base = made(tmp_path / "t")
    pack(base, packing=FEW)
    write(base, [("p21", 9, "p", "later")], **APART)
    before, later = read_rows(base), scan(base).timeline.completed_writes[-1].time
    for undo in (preview_undo, undo_clustering):
        with pytest.raises(Refused, match=f"{later} came later"):
            undo(at(base))
    assert read_rows(base) == before


def test_a_clustering_that_gave_up_is_none(tmp_path: Path) -> None:
    """It is neither what is undone, nor one that came later."""
    base, storage = made(tmp_path / "t"), LocalStorage()
    before = read_rows(base)
    instant = pack(base, packing=FEW, partitions={"p"}).instant
    table = serviced_table(str(base), storage, ScriptedProcesses(), **SHARED, yielding=YieldOptions(seconds=0.0))
    written: list[str] = []
    act = meanwhile(lambda: written.append(pending_write(base, table.clock)))
    with pytest.raises(TryLater):
        cluster(table, FEW, act, lambda *of: run_task(storage, *of))
    for left in (base / ".hoodie" / "timeline").glob(f"{written[0]}.*"):
        left.unlink()
    assert scan(base).timeline.completed_writes[-1].time != instant
    done = undo_clustering(replace(at(base), clock=table.clock))
    assert done.clustering == instant and read_rows(base) == before


def test_a_write_that_completes_while_it_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps 1 of services/together/clustering_undo: the look under the lock counts."""
    base, choose = made(tmp_path / "t"), clustering_undo._choose
    pack(base, packing=FEW)

    def choose_and_write(table: ServicedTable) -> tuple[str, str]:
        chosen = choose(table)
        write(base, [("p21", 9, "p", "meanwhile")], **APART)
        return chosen

    monkeypatch.setattr(clustering_undo, "_choose", choose_and_write)
    with pytest.raises(Refused, match="came later"):
        undo_clustering(at(base))
    assert [row["v"] for row in read_rows(base) if row["id"] == "p21"] == ["meanwhile"]


def test_the_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It needs stopped writers, goes with no other choice, and says of a dry run what would be."""
    base = made(tmp_path / "t", COPY_ON_WRITE, indexed=True)
    before = read_rows(base)
    instant = pack(base, packing=FEW).instant
    packed = data_files(base)
    words = ["cluster", str(base), "--undo"]
    assert run(words) == 2
    assert "The undo of a clustering is refused beside writers." in capsys.readouterr().err
    assert run([*words, "--by", "v", "--writers", "stopped"]) == 2
    assert "--undo goes with no choice of file groups or columns." in capsys.readouterr().err
    assert run([*words, "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert f"Would undo clustering {instant}: " in said and "The metadata table would be removed;" in said
    assert data_files(base) == packed
    assert run([*words, "--writers", "stopped", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["undone"], document["dry_run"], document["metadata_table_removed"]) == (instant, False, True)
    assert document["restore"] and document["cleans_undone"] == [] and read_rows(base) == before
    (undone,) = document["rolled_back"]
    assert (undone["instant"], undone["operation"]) == (instant, "CLUSTER") and undone["files"]


def test_an_undo_that_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says what is left, and what ends it."""
    base = made(tmp_path / "t")
    pack(base, packing=FEW)

    def interrupt(table: ServicedTable) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cluster_command, "undo_clustering", interrupt)
    assert run(["cluster", str(base), "--undo", "--writers", "stopped"]) == 130
    assert "`lakeward restore TABLE --to COMMIT` ends it" in capsys.readouterr().err
