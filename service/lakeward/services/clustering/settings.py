"""Which file groups of a table are clustered: the section `clustering` of the configuration.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated

from pydantic import Field, Strict

from lakeward.protocol.section import Many, SectionProblem, SettingKind, SettingsSection, Size, SizeOrOff, Text
from lakeward.services.clustering.plan.layout import COLUMNS_MAX, PACKED, Layout
from lakeward.services.clustering.plan.pack_options import GROUPS_MIN, TARGET_BYTES, PackOptions

DAY_BYTES = 100 * 1024**3


class ClusteringSettings(SettingsSection):
    """Which small file groups the daemon and `lakeward cluster` pack. The daemon packs by itself, in pauses of the
    writers and within `windows`; take `clustering` out of `services` where it should not. Rows are brought together by
    columns only where `by` names them."""

    by: Many[Text] = ()
    """Columns that bring rows together, four at most: a filter on them reads fewer files. What has come since the last
    clustering is laid out by them, and what grew by 30 %, in partitions where a filter would read less for it: `hybrid`
    on tables of the layout lsm_tree, else `sort` by one column and `curve` by several. Not given: small file groups are
    packed."""

    target_size: Size = TARGET_BYTES
    """The size of new file groups, at most (hoodie.parquet.max.file.size). File groups of 75 % of it or more are left
    alone. `lakeward layout` estimates with it, too."""
    min_groups: Annotated[int, Strict(), Field(ge=2), SettingKind("whole number from 2")] = GROUPS_MIN
    """So many small file groups beside each other are packed though they have less than 75 % of the target."""
    bytes_per_day: SizeOrOff = DAY_BYTES
    """The most that the daemon packs of a table in 24 hours. none: no limit."""

    @property
    def options(self) -> PackOptions:
        return PackOptions(self.target_size, self.min_groups, layout=self.layout)

    @property
    def layout(self) -> Layout:
        return Layout(None, self.by) if self.by else PACKED

    def problems(self, beside: Mapping[str, str]) -> Iterator[SectionProblem]:
        if len(self.by) > COLUMNS_MAX or len({*self.by}) < len(self.by):
            yield SectionProblem(
                ("by",),
                f"clustering.by names {len(self.by)} columns.",
                f"With more than {COLUMNS_MAX} each of them brings few rows together; each is named once.",
                "Name the columns that queries filter by most.",
            )
        if self.bytes_per_day is not None and self.bytes_per_day < self.target_size:
            yield SectionProblem(
                ("bytes_per_day", "target_size"),
                "clustering.bytes_per_day is less than clustering.target_size.",
                "Then no file group of the target's size could be packed in a day.",
                "Set bytes_per_day to target_size or more, or to none.",
            )


SECTION = ClusteringSettings
