"""When partitions of a table expire: the section `ttl` of the configuration.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import Field

from lakeward.base.errors import LakewardError
from lakeward.protocol.section import (
    DurationOrNone,
    DurationOrOff,
    SectionProblem,
    SettingsSection,
    Text,
    Verbatim,
)
from lakeward.services.ttl.plan.options import AgeBy, TtlOptions, ttl_options_of
from lakeward.services.ttl.plan.path_date import check_pattern


class TtlSettings(SettingsSection):
    """When partitions expire. By default none does."""

    keep: DurationOrOff = None
    """A partition that is older is deleted, as a commit, `90d`: its files stay until a clean takes them. none: no
    partition expires."""
    by: AgeBy | None = None
    """From when its age counts. `written`: since its newest row was written; compactions and clusterings make it no
    younger, as they do with Hudi's KEEP_BY_TIME. `created`: since the partition was made. `date`: since the day or hour
    in its path was over, in UTC. Not given: as `hudi` has it, else `written`."""
    date_format: Text = "yyyy-MM-dd"
    """The date in a path, for `by = "date"`: yyyy, MM, dd and HH; a slash means the next folder."""
    notice: DurationOrNone = 86400.0
    """How long before the first run on a table the daemon says which partitions will go
    (`lakeward_table_ttl_noticed_partitions`, an alert). A shorter `keep` is noticed again."""
    hudi: dict[Text, Verbatim] = Field(default={})
    """Settings of Hudi's partition TTL by their keys: `hoodie.partition.ttl.management.strategy.type` (KEEP_BY_TIME,
    KEEP_BY_CREATION_TIME), `hoodie.partition.ttl.strategy.days.retain`,
    `hoodie.partition.ttl.strategy.partition.selected`, `hoodie.partition.ttl.strategy.max.delete.partitions` (so many
    go at once, the oldest first; 1,000). The keys above win."""

    @property
    def options(self) -> TtlOptions:
        """Raises `UsageError`."""
        if self.by is AgeBy.DATE:
            check_pattern(self.date_format)
        return ttl_options_of(
            self.hudi,
            keep=self.keep,
            by=self.by,
            date_format=self.date_format,
        )

    def problems(self, beside: Mapping[str, str]) -> Iterator[SectionProblem]:
        try:
            _ = self.options
        except LakewardError as error:
            keys = ("date_format",) if self.by is AgeBy.DATE else ("hudi",)
            yield SectionProblem(keys, error.what, error.why, error.remedy)


SECTION = TtlSettings
