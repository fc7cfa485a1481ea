"""What is asked of a clustering: sizes, columns, partitions.

Touches: nothing; loads neither Numpy nor Arrow, since the configuration has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakeward.services.clustering.plan.layout import PACKED, Layout
from lakeward.services.clustering.plan.partition_filter import EVERY_PARTITION, PartitionFilter

if TYPE_CHECKING:
    from lakeward.format.timeline.replace_metadata import RequestedGroup

TARGET_BYTES = 120 * 1024 * 1024
"""`hoodie.parquet.max.file.size`: what Hudi's writers fill a file up to."""
GROUPS_MIN = 5
"""`min-input-files` of Iceberg's rewrite_data_files."""
TOGETHER_BYTES = 4 * 1024 * 1024 * 1024
"""Twice `hoodie.clustering.plan.strategy.max.bytes.per.group`: each task has a piece for each part."""


@dataclass(frozen=True, slots=True)
class PlanOfHudi:
    """What a clustering takes that Hudi requested."""

    instant: str
    groups: tuple[RequestedGroup, ...]


@dataclass(frozen=True, slots=True)
class PackOptions:
    target_bytes: int = TARGET_BYTES
    groups_min: int = GROUPS_MIN
    """So many small file groups are worth a write, whatever their size."""
    bytes_max: int | None = None
    """The most that is read in one run; None: no cap."""
    layout: Layout = PACKED
    together_bytes: int = TOGETHER_BYTES
    """The most that gets ranges of columns together."""
    again: bool = False
    """With columns: also what has a layout already, whichever."""
    partitions: PartitionFilter = EVERY_PARTITION
    hudi_keys: Mapping[str, str] | None = None
    """The plan is Hudi's by these keys, where there are any; then nothing else here counts but caps and partitions."""
    requested: PlanOfHudi | None = None
    """The plan is this one; then of all else here the layout and the target size count."""

    @property
    def enough_bytes(self) -> int:
        """A file group of so many bytes is left alone."""
        return self.target_bytes * 3 // 4
