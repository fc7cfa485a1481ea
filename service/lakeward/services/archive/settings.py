"""How long the active timeline of a table is: the section `archive` of the configuration.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar

from pydantic import Field

from lakeward.base.errors import LakewardError
from lakeward.protocol.section import SectionProblem, SettingsSection, Text, Verbatim
from lakeward.services.archive.plan.hudi_archiver_keys import (
    CLEAN_POLICY,
    CLEANED,
    KEEP_MAX,
    KEEP_MIN,
    TRIGGER,
    ArchiveOptions,
    archive_options_of,
    merge_archive_settings,
)


class ArchiveSettings(SettingsSection):
    """How long the active timeline is, for the daemon and for commands that are given this file."""

    hudi: dict[Text, Verbatim] = Field(default={})
    """Settings of Hudi's archiver by their keys: `hoodie.keep.min.commits`, `hoodie.keep.max.commits`,
    `hoodie.clean.commits.retained`, `hoodie.compact.inline.max.delta.commits`, `hoodie.timeline.compaction.batch.size`,
    `hoodie.timeline.manifest.retained.versions`. Not given: as with Hudi, from more than 30 commits on the oldest go,
    until 20 are left. What a clean still needs stays as well. A table adds to what [defaults] says."""
    added_up: ClassVar[Mapping[str, Callable[..., dict[str, str]]]] = {"hudi": merge_archive_settings}

    def by_hudis_keys(self, beside: Mapping[str, str]) -> dict[str, str]:
        """What is given here, and in other sections of what cleaning retains and of what triggers a compaction.

        Args:
            beside: what these say, by Hudi's keys.
        """
        others = {key: beside[key] for key in (TRIGGER, CLEANED) if key in beside}
        return merge_archive_settings(others, self.hudi)

    def chosen(self, beside: Mapping[str, str]) -> ArchiveOptions:
        """The effective values. Raises `UsageError`."""
        return archive_options_of(self.by_hudis_keys(beside))

    def problems(self, beside: Mapping[str, str]) -> Iterator[SectionProblem]:
        """What stays on the timeline is the most of three numbers; one that can never count is a mistake."""
        keys = ("hudi",)
        if not self.hudi:
            return
        try:
            options = self.chosen(beside)
        except LakewardError as error:
            yield SectionProblem(keys, error.what, error.why, error.remedy)
            return
        needed = options.commits_cleaned + 1
        if CLEAN_POLICY in beside and options.commits_min < needed:
            yield SectionProblem(
                keys,
                f"{options.commits_min} commits stay at least when a timeline is archived, and cleaning needs "
                f"{needed}.",
                f"Cleaning retains what can be read as of the newest {options.commits_cleaned} commits, and one more "
                f"is where it goes on from: {options.commits_cleaned} + 1 = {needed}. So the smaller number is never "
                "reached.",
                f"Set {KEEP_MIN} to {needed} or more, or let cleaning retain fewer.",
            )
        if options.delta_commits > options.commits_max and TRIGGER in beside:
            most, trigger = options.commits_max, options.delta_commits
            yield SectionProblem(
                keys,
                f"A compaction needs {trigger} delta commits, and of more than {most} commits the oldest are archived.",
                f"The newest {trigger} delta commits stay, or no compaction would fall due by {TRIGGER}; so the "
                f"timeline never gets as short as {most}.",
                f"Set {KEEP_MAX} to {trigger} or more, or {TRIGGER} to less.",
            )


SECTION = ArchiveSettings
