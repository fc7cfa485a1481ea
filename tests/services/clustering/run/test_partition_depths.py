"""What filters read of partitions, by the ranges in their file groups."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lakeward.services.clustering.plan.layout import ClusterMode, Layout
from lakeward.services.clustering.plan.pack_options import PackOptions
from lakeward.services.clustering.run.partition_depths import partition_depths
from lakeward.storage.local import LocalStorage
from lakeward.table.new_table import COPY_ON_WRITE
from tests.clocks import SkippingClock
from tests.our_reader import scan
from tests.services.clustering.run.test_clusterer import made

OPTIONS = PackOptions(layout=Layout(ClusterMode.SORT, ("v", "ts")))


@pytest.mark.parametrize(("columns", "reads"), [(("v", "ts"), 2.0), (("nope",), None)])
def test_each_partition_has_its_figures(tmp_path: Path, columns: tuple[str, ...], reads: float | None) -> None:
    """Keeps of services/clustering/run/partition_depths: a column that is not there is not known, and no error. Of a
    sort its first column counts: here `a` is in three file groups, `b` in one."""
    snapshot = scan(made(tmp_path / "t", COPY_ON_WRITE))
    options = replace(OPTIONS, layout=Layout(ClusterMode.SORT, columns))
    found = partition_depths(LocalStorage(), snapshot, options, {"p"}, runs={"p": 3, "q": 1}, clock=SkippingClock())
    assert list(found) == ["p"]
    depth = found["p"]
    assert (depth.groups, depth.small, depth.column, depth.runs, depth.fits) == (3, 3, columns[0], 3, True)
    assert (depth.reads, depth.best) == (reads, 1.0)
