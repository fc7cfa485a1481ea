"""Packs small file groups in this process."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from lakeward.base.clock import Clock
from lakeward.engine.dispatch.in_process import InProcessDispatcher
from lakeward.protocol.owner import Processes
from lakeward.services.clustering.plan.pack_options import PackOptions
from lakeward.services.clustering.run.clusterer import ClusteringReport, cluster
from lakeward.services.clustering.run.tasks import run_task
from lakeward.storage.local import LocalStorage
from lakeward.storage.storage import Storage
from tests.processes import ScriptedProcesses
from tests.services.metadata.run.compacting_metadata import serviced_table


def pack(
    base: Path | str,
    storage: Storage | None = None,
    processes: Processes | None = None,
    *,
    packing: PackOptions | None = None,
    partitions: Collection[str] | None = None,
    clock: Clock | None = None,
    **options: Any,
) -> ClusteringReport:
    at = storage or LocalStorage()
    table = serviced_table(str(base), at, processes or ScriptedProcesses(), **options)
    return cluster(
        replace(table, clock=clock or table.clock),
        packing or PackOptions(),
        lambda _: InProcessDispatcher(),
        partial(run_task, at),
        partitions=partitions,
    )
