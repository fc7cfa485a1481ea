"""Hudi's keys for its cleaner, taken verbatim, and the policy that results.

    hoodie.clean.policy                   KEEP_LATEST_COMMITS, KEEP_LATEST_FILE_VERSIONS, KEEP_LATEST_BY_HOURS
    hoodie.clean.commits.retained         read by the first alone
    hoodie.clean.fileversions.retained    by the second
    hoodie.clean.hours.retained           by the third
    hoodie.clean.incremental.enabled      whether only what was written to since an earlier clean is looked at

Each has an older name, with `cleaner` in the place of `clean`, which counts where the newer one is not given; the last
one's is hoodie.cleaner.incremental.mode.

Touches: nothing.
Keeps:   1. a number that the policy does not read is checked, and changes nothing;
         2. a policy that Hudi would not take is refused, and so is keeping nothing at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakeward.base.did_you_mean import did_you_mean
from lakeward.base.errors import UsageError
from lakeward.base.layers import merge_layers
from lakeward.services.clean.plan.policy import (
    HUDI_NAMES,
    RETAINED_BY_DEFAULT,
    CleanOptions,
    CleanPolicy,
    CleanPolicyKind,
)


@dataclass(frozen=True, slots=True)
class CleanRules:
    """How the daemon cleans a table."""

    options: CleanOptions
    keep_deleted: float
    """Seconds for which what a clean takes away can be brought back."""
    quarantine_max: int | None
    """Bytes of these at the most."""


_POLICY = "hoodie.clean.policy"
_RETAINED = {
    CleanPolicyKind.COMMITS: "hoodie.clean.commits.retained",
    CleanPolicyKind.VERSIONS: "hoodie.clean.fileversions.retained",
    CleanPolicyKind.HOURS: "hoodie.clean.hours.retained",
}

_INCREMENTAL = "hoodie.clean.incremental.enabled"
_INCREMENTAL_OLDER = "hoodie.cleaner.incremental.mode"

CLEAN_SETTINGS = (_POLICY, *_RETAINED.values(), _INCREMENTAL)
"""The newer names."""


def clean_policy_of(
    settings: Mapping[str, str], *, kind: CleanPolicyKind | None = None, retain: int | None = None
) -> CleanPolicy:
    """The policy of these settings. Raises `UsageError`.

    Args:
        kind: wins over the settings.
        retain: the same for the number.
    """
    given = _by_newer_names(settings)
    numbers = {of: _number(key, given[key]) for of, key in _RETAINED.items() if key in given}
    chosen = kind or _kind(given.get(_POLICY, HUDI_NAMES[CleanPolicyKind.COMMITS]))
    return CleanPolicy(chosen, retain or numbers.get(chosen, RETAINED_BY_DEFAULT[chosen]))


def settings_of_policy(policy: CleanPolicy) -> dict[str, str]:
    """The policy by Hudi's keys."""
    return {_POLICY: HUDI_NAMES[policy.kind], _RETAINED[policy.kind]: str(policy.retain)}


def names_retention(settings: Mapping[str, str]) -> bool:
    """Whether any of these says how much is kept."""
    return any(key in (_POLICY, *_RETAINED.values()) for key in _by_newer_names(settings))


def merge_clean_settings(*layers: Mapping[str, str]) -> dict[str, str]:
    """The settings of all layers; a later one wins, also over the same setting under its other name."""
    return merge_layers(*layers, meaning=_newer)


def says_what_is_kept(settings: Mapping[str, str]) -> bool:
    """Whether any of the settings is of the policy or its number."""
    return any(_newer(key) != _INCREMENTAL for key in settings)


def is_incremental(settings: Mapping[str, str]) -> bool:
    """Whether only what was written to since an earlier clean is looked at, as by default. Raises `UsageError`."""
    text = _by_newer_names(settings).get(_INCREMENTAL, "true")
    if text.strip().lower() not in ("true", "false"):
        raise UsageError(f"{_INCREMENTAL} cannot be '{text}'.", why="It is on or off.", remedy="Write true or false.")
    return text.strip().lower() == "true"


def _by_newer_names(settings: Mapping[str, str]) -> dict[str, str]:
    older = {_older(key): key for key in CLEAN_SETTINGS}
    for key in settings:
        if key not in CLEAN_SETTINGS and key not in older:
            raise UsageError(
                f"There is no setting {key}.",
                why=did_you_mean(key, CLEAN_SETTINGS, otherwise="It is none of the cleaner's that count here."),
                remedy=f"The settings are {', '.join(CLEAN_SETTINGS)}.",
            )
    return {newer: settings[key] for key, newer in older.items() if key in settings} | {
        key: settings[key] for key in CLEAN_SETTINGS if key in settings
    }


def _older(key: str) -> str:
    return _INCREMENTAL_OLDER if key == _INCREMENTAL else key.replace("hoodie.clean.", "hoodie.cleaner.", 1)


def _newer(key: str) -> str:
    return _INCREMENTAL if key == _INCREMENTAL_OLDER else key.replace("hoodie.cleaner.", "hoodie.clean.", 1)


def _kind(name: str) -> CleanPolicyKind:
    for kind, known in HUDI_NAMES.items():
        if name.upper() == known:
            return kind
    raise UsageError(
        f"{_POLICY} cannot be '{name}'.",
        why="It is no policy of Hudi's cleaner.",
        remedy=f"The policies are {', '.join(HUDI_NAMES.values())}.",
    )


def _number(key: str, text: str) -> int:
    if not text.strip().isdecimal() or int(text) < 1:
        raise UsageError(
            f"{key} cannot be '{text}'.", why="Something must be retained.", remedy="Write a whole number, 1 or more."
        )
    return int(text)
