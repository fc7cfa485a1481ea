"""Hudi's keys for its archiver, taken verbatim, and the options that result.

    hoodie.keep.min.commits, hoodie.keep.max.commits
    hoodie.clean.commits.retained                 what the cleaner retains; also hoodie.cleaner.commits.retained
    hoodie.compact.inline.max.delta.commits       how many delta commits trigger a compaction
    hoodie.timeline.compaction.batch.size         how many files of a level of the archive are merged into one
    hoodie.timeline.manifest.retained.versions    how many manifests of the archive stay

Touches: nothing.
Keeps:   a number that does not go with another one is refused, before anything is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from lakeward.base.did_you_mean import did_you_mean
from lakeward.base.errors import UsageError
from lakeward.base.layers import merge_layers


@dataclass(frozen=True, slots=True)
class ArchiveOptions:
    """Hudi's settings, with its defaults."""

    commits_min: int = 20
    """hoodie.keep.min.commits"""
    commits_max: int = 30
    """hoodie.keep.max.commits"""
    commits_cleaned: int = 10
    """hoodie.clean.commits.retained"""
    delta_commits: int = 5
    """hoodie.compact.inline.max.delta.commits"""
    level_files: int = 10
    """hoodie.timeline.compaction.batch.size: so many files of a level of the archive are merged into one."""
    manifests_kept: int = 3
    """hoodie.timeline.manifest.retained.versions"""


KEEP_MIN = "hoodie.keep.min.commits"
KEEP_MAX = "hoodie.keep.max.commits"
CLEANED = "hoodie.clean.commits.retained"
CLEAN_POLICY = "hoodie.clean.policy"
"""A configuration that says how much cleaning retains says this, too."""
TRIGGER = "hoodie.compact.inline.max.delta.commits"

_FIELDS = {
    KEEP_MIN: "commits_min",
    KEEP_MAX: "commits_max",
    CLEANED: "commits_cleaned",
    TRIGGER: "delta_commits",
    "hoodie.timeline.compaction.batch.size": "level_files",
    "hoodie.timeline.manifest.retained.versions": "manifests_kept",
}
_OLDER = {"hoodie.cleaner.commits.retained": CLEANED}
_AT_LEAST = {"level_files": 2}

ARCHIVE_SETTINGS = tuple(_FIELDS)


def merge_archive_settings(*layers: Mapping[str, str]) -> dict[str, str]:
    """The settings of all layers; a later one wins, also over the same setting under its other name."""
    return merge_layers(*layers, meaning=lambda key: _OLDER.get(key, key))


def archive_options_of(settings: Mapping[str, str], **given: int | None) -> ArchiveOptions:
    """The options of these settings. Raises `UsageError`.

    Args:
        given: by the names of the options; they win over the settings.
    """
    numbers = {
        _FIELDS[_OLDER.get(key, key)]: _number(key, text)
        # The older name first, so that the newer one wins.
        for key, text in sorted(settings.items(), key=lambda item: item[0] not in _OLDER)
        if _is_known(key)
    }
    numbers |= {name: number for name, number in given.items() if number is not None}
    options = ArchiveOptions(**numbers)
    for field in fields(options):
        least = _AT_LEAST.get(field.name, 1)
        if getattr(options, field.name) < least:
            raise UsageError(
                f"{_key_of(field.name)} cannot be {getattr(options, field.name)}.",
                why="That leaves nothing." if least == 1 else "One file is nothing to merge.",
                remedy=f"Write a whole number, {least} or more.",
            )
    if options.commits_min > options.commits_max:
        raise UsageError(
            f"{options.commits_min} commits cannot stay at least where more than {options.commits_max} are too many.",
            why="From more than hoodie.keep.max.commits on the oldest go, until hoodie.keep.min.commits are left.",
            remedy="Make hoodie.keep.min.commits (--keep-min) the smaller one.",
        )
    return options


def _is_known(key: str) -> bool:
    if key in _FIELDS or key in _OLDER:
        return True
    raise UsageError(
        f"There is no setting {key}.",
        why=did_you_mean(key, ARCHIVE_SETTINGS, otherwise="It is none of the archiver's that count here."),
        remedy=f"The settings are {', '.join(ARCHIVE_SETTINGS)}.",
    )


def _key_of(name: str) -> str:
    return next(key for key, field in _FIELDS.items() if field == name)


def _number(key: str, text: str) -> int:
    if not text.strip().isdecimal():
        raise UsageError(
            f"{key} cannot be '{text}'.", why="It is a number of commits or files.", remedy="Write a whole number."
        )
    return int(text)
