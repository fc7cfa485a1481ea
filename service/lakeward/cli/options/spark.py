"""The place that a command's operations run in: in process where there is little to merge, else on Spark.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakeward.cli.options.pairs import parse_pairs

if TYPE_CHECKING:
    from lakeward.config.settings import SparkSettings
    from lakeward.dispatch.spark import SparkDispatcher

LOCAL_BELOW_BYTES = 256 * 1024 * 1024
"""What one core merges in the time in which Spark starts, on a machine of however many cores (benchmarks/README.md)."""


def local_below_of(configured: SparkSettings, master: str | None) -> int:
    """Plans that read fewer bytes run in process."""
    if configured.local_below is not None:
        return configured.local_below
    is_named = master is not None or bool(configured.model_fields_set & {"master", "remote"})
    return 0 if is_named else LOCAL_BELOW_BYTES


def spark_of(configured: SparkSettings, master: str | None, pairs: Sequence[str]) -> SparkDispatcher:
    """It starts with the first operation that it gets."""
    from lakeward.dispatch.spark import SparkDispatcher

    remote = None if configured.remote is None or master is not None else configured.remote.get_secret_value()
    settings = configured.conf | parse_pairs(pairs, like="--spark-conf spark.executor.memory=2g")
    return SparkDispatcher(master or configured.master, settings, pool=configured.pool, remote=remote)
