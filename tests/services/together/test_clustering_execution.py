"""A clustering that Hudi requested is carried out: its groups, and nothing where Lakeward does not carry it out."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from datetime import UTC
from pathlib import Path
from typing import Any

import fastavro
import pytest

from lakeward.base.errors import Refused, UsageError, VerificationFailed
from lakeward.engine.dispatch.in_process import InProcessDispatcher
from lakeward.format.timeline.instant import format_instant_time, parse_instant_time
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.clustering.plan.hudi_plan import SORT_COLUMNS
from lakeward.services.clustering.run.clusterer import ClusteringReport
from lakeward.services.clustering.run.tasks import run_task
from lakeward.services.together.clustering_execution import execute_clustering, preview_execution
from lakeward.storage.local import LocalStorage
from tests.crash.compacting import everything
from tests.golden_tables import GOLDEN
from tests.our_reader import read_rows, scan
from tests.processes import ScriptedProcesses
from tests.services.clustering.run.test_clusterer import SHARED, made
from tests.services.metadata.run.compacting_metadata import serviced_table

REQUEST = GOLDEN / "timeline/20261121072052461.clustering.requested"


def request(
    base: Path, groups: Sequence[Sequence[str]], *, columns: str = "", strategy: str | None = None, begun: bool = False
) -> str:
    """Hudi's request, as of a golden table, of these file groups of the partition `p`; its instant."""
    reader = fastavro.reader(io.BytesIO(REQUEST.read_bytes()))
    record: Any = next(reader)
    plan = record["clusteringPlan"]
    like = plan["inputGroups"][0]
    plan["inputGroups"] = [
        {**like, "numOutputFileGroups": 1, "slices": [_slice(like["slices"][0], file_id) for file_id in group]}
        for group in groups
    ]
    parameters: Mapping[str, str] = plan["strategy"]["strategyParams"] or {}
    plan["strategy"]["strategyParams"] = {**parameters, SORT_COLUMNS: columns}
    plan["strategy"]["strategyClassName"] = strategy or plan["strategy"]["strategyClassName"]
    latest = scan(base).timeline.latest_time
    assert latest is not None and reader.writer_schema is not None
    instant = format_instant_time(parse_instant_time(latest, UTC) + 1, UTC)
    folder = base / ".hoodie" / "timeline"
    with (folder / f"{instant}.clustering.requested").open("wb") as file:
        fastavro.writer(file, reader.writer_schema, [record])
    if begun:
        (folder / f"{instant}.clustering.inflight").touch()
    return instant


def _slice(like: Mapping[str, Any], file_id: str) -> dict[str, Any]:
    return {**like, "fileId": file_id, "partitionPath": "p"}


def groups_of(base: Path) -> list[str]:
    return sorted(each.file_id for each in scan(base).latest_slices if each.partition_path == "p")


def at(base: Path, **options: Any) -> ServicedTable:
    return serviced_table(str(base), LocalStorage(), ScriptedProcesses(), **options)


def execute(base: Path, instant: str) -> ClusteringReport:
    storage = LocalStorage()
    return execute_clustering(at(base), instant, lambda _: InProcessDispatcher(), lambda *of: run_task(storage, *of))


@pytest.mark.parametrize(("columns", "begun"), [("", False), ("v", True)])
def test_its_groups_become_new_ones(tmp_path: Path, columns: str, begun: bool) -> None:
    """Keeps 1 of services/clustering/plan/requested_plan: these file groups and no others; a dry run writes nothing."""
    base = made(tmp_path / "t")
    before, groups = read_rows(base), groups_of(base)
    instant, files = request(base, [groups[:2]], columns=columns, begun=begun), everything(base)
    assert preview_execution(at(base), instant).plan.input_groups == 2 and everything(base) == files
    done = execute(base, instant)
    assert [len(each.slices) for each in done.plan.packed] == [2] and done.output_groups == 1
    assert set(groups[2:]) < set(groups_of(base)) and len(groups_of(base)) == len(groups) - 1
    assert not [each for each in scan(base).timeline.instants if each.time == instant]
    assert read_rows(base) == before


def test_what_is_not_carried_out_stays(tmp_path: Path) -> None:
    """Keeps 1 of services/together/clustering_execution and Keeps 2 of services/clustering/plan/requested_plan: nothing
    is written where the instant is none of a pending clustering, where the strategy is another one, where a file group
    is gone, and beside writers, where Hudi may be about to begin."""
    base = made(tmp_path / "t")
    groups = groups_of(base)
    for instant, error, match in (
        ("20200101000000000", UsageError, "No clustering is pending"),
        (request(base, [groups[:2]], strategy="org.example.Other"), Refused, "Its strategy is org.example.Other"),
        (request(base, [groups[:2]], columns="a,b,c,d,e"), Refused, "sorts by 5 columns"),
        (request(base, [groups[:2]], columns="city"), Refused, "has no column city"),
        (request(base, [["gone-0"]]), Refused, "gone-0 of its plan is gone"),
        (request(base, []), UsageError, "names no file group"),
    ):
        files = everything(base)
        with pytest.raises(error, match=match):
            execute(base, instant)
        assert everything(base) == files
    instant, files = request(base, [groups[2:]]), everything(base)
    with pytest.raises(Refused, match="may be about to begin it"):
        execute_clustering(at(base, **SHARED), instant, lambda _: InProcessDispatcher(), lambda *of: None)
    assert everything(base) == files


def test_a_clustering_that_fails_frees_the_file_groups(tmp_path: Path) -> None:
    """Keeps 2 of services/together/clustering_execution."""
    base = made(tmp_path / "t")
    before, instant = read_rows(base), request(base, [groups_of(base)])

    def fail(*of: object) -> None:
        raise VerificationFailed("a row is lost")

    with pytest.raises(VerificationFailed) as failed:
        execute_clustering(at(base), instant, lambda _: InProcessDispatcher(), fail)
    assert "is rolled back" in failed.value.__notes__[0]
    snapshot = scan(base)
    assert not snapshot.pending_clusterings and read_rows(base) == before
