"""How much of a table's past its cleans keep: the section `clean` of the configuration.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, ClassVar

from pydantic import Field

from lakeward.base.errors import LakewardError
from lakeward.protocol.section import (
    Count,
    DurationOrNone,
    Flag,
    SectionProblem,
    SettingsSection,
    SizeOrOff,
    Text,
    Verbatim,
    checked,
)
from lakeward.services.clean.plan.consumer import WatermarkPlace, parse_place
from lakeward.services.clean.plan.hudi_cleaner_keys import (
    CleanRules,
    clean_policy_of,
    is_incremental,
    merge_clean_settings,
    says_what_is_kept,
    settings_of_policy,
)
from lakeward.services.clean.plan.policy import READER_WINDOW_SECONDS, CleanOptions, CleanPolicy, CleanPolicyKind


class CleanSettings(SettingsSection):
    """How much of a table's past its cleans keep, those of the daemon and of commands that are given this file."""

    policy: CleanPolicyKind | None = None
    """`commits`: what can be read as of the last commits. `hours`: as of the commits of the last hours. `versions`: the
    newest slices of each file group. Not given, neither here nor under `hudi`: `commits`, as with Hudi; and where
    the newest clean of the table's own writers shows that they keep more than that, as much as they do."""
    retain: Count | None = None
    """How many of these. Not given: as with Hudi, 10 commits, 24 hours or 3 versions."""
    hudi: dict[Text, Verbatim] = Field(default={})
    """Settings of Hudi's cleaner by their keys: `hoodie.clean.policy`, `hoodie.clean.commits.retained`,
    `hoodie.clean.fileversions.retained`, `hoodie.clean.hours.retained`, `hoodie.clean.incremental.enabled` (true: only
    partitions written to since an earlier clean are looked at), also by their older names, `hoodie.cleaner.*`.
    `policy` and `retain` win. A table adds to what [defaults] says."""
    reader_window: DurationOrNone = READER_WINDOW_SECONDS
    """The longest query that is waited for: what a commit superseded stays for so long after that commit completed. 0,
    as with Hudi: none is waited for."""
    consumers: dict[Text, Annotated[Text, checked(parse_place)]] = Field(default={})
    """Incremental consumers by name, and where each says up to which time it has read: `file:PATH`, `property:KEY` of
    the table, or `table:PATH` of the table that it writes as a Hudi Streamer. What it has not read stays."""
    keep_deleted: DurationOrNone = 0.0
    """What a clean takes away is kept for so long in the quarantine, `.hoodie/.quarantine`, from where
    `lakeward quarantine restore` brings it back. 0, as with Hudi: it is deleted at once. We recommend 1d."""
    quarantine_max: SizeOrOff = None
    """What the quarantine of a table may hold. What is more than that is deleted before its time, the oldest first."""
    retire_merged_logs: Flag = False
    """In the layout `default`, too, cleans take away the logs that a log compaction has merged while readers still read
    their slice. One of them stays as the anchor of the output until the next FULL; Hudi's readers would lose the rows
    of the output if that log was lost. In the layout `lsm_tree` they go in any case."""
    added_up: ClassVar[Mapping[str, Callable[..., dict[str, str]]]] = {"hudi": merge_clean_settings}

    @property
    def places(self) -> dict[str, WatermarkPlace]:
        """The place of each consumer's watermark, by its name."""
        return {name: parse_place(place) for name, place in self.consumers.items()}

    @property
    def is_given(self) -> bool:
        """Something is said about what is kept."""
        return self.policy is not None or self.retain is not None or says_what_is_kept(self.hudi)

    @property
    def options(self) -> CleanOptions:
        """The options of a clean. Raises `UsageError`."""
        policy = self.chosen if self.is_given else None
        return CleanOptions(
            policy,
            self.reader_window,
            self.places,
            is_incremental(self.hudi),
            retires_by_anchors=self.retire_merged_logs,
        )

    @property
    def chosen(self) -> CleanPolicy:
        """The effective value. Raises `UsageError`."""
        return clean_policy_of(self.hudi, kind=self.policy, retain=self.retain)

    @property
    def is_incremental(self) -> bool:
        """Cleans look only at what was written to since an earlier one. Raises `UsageError`."""
        return is_incremental(self.hudi)

    @property
    def rules(self) -> CleanRules:
        """How the daemon cleans. Raises `UsageError`."""
        return CleanRules(self.options, self.keep_deleted, self.quarantine_max)

    @property
    def retires_sources(self) -> bool:
        """No log retires by file versions, which have no moment since when all can be read."""
        return self.chosen.kind is not CleanPolicyKind.VERSIONS

    @property
    def as_hudi_has_it(self) -> dict[str, str]:
        return settings_of_policy(self.chosen) if self.is_given else {}

    def problems(self, beside: Mapping[str, str]) -> Iterator[SectionProblem]:
        try:
            _ = self.chosen, self.is_incremental
        except LakewardError as error:
            yield SectionProblem(("hudi",), error.what, error.why, error.remedy)


SECTION = CleanSettings
