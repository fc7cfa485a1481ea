"""What an upgrade or a downgrade changes of a table: its properties and those of its metadata table in, steps out.

    9 -> 10    the metadata table's properties -> the table's

The metadata table goes first, as with Hudi: a process that begins again, ours or Hudi's, goes by the version of the
table, and by it takes all else for done.

Touches: nothing.
Keeps:   1. the version of the table itself is the last thing to change;
         2. properties that are not named keep their values, and so does a mode of meta fields that is there;
         3. a change of which Hudi's rules are not known here is refused, with the way to have Hudi do it.
Source:  UpgradeDowngrade, NineToTenUpgradeHandler, MetaFieldsMode (Hudi's master, August 2026)
See:     docs/decisions/0068-upgrade-and-downgrade.md
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lakeward.errors import Refused, UsageError
from lakeward.table.table_config import META_FIELDS_MODE, STORAGE_LAYOUT, VERSION, TableConfig

_ALL: Final = "ALL"
_NONE: Final = "NONE"
_SELECTIVE: Final = frozenset({"COMMIT_TIME_ONLY", "FILE_NAME_ONLY", "COMMIT_TIME_AND_FILE_NAME"})
_DEFAULT_LAYOUT: Final = "default"
_OURS: Final = frozenset({(9, 10)})
_SERVED: Final = range(6, 11)
"""The versions that Hudi's releases of this time go between."""


class StepKind(StrEnum):
    METADATA_PROPERTIES = "metadata-properties"
    """The properties of the metadata table."""
    PROPERTIES = "properties"


@dataclass(frozen=True, slots=True)
class VersionStep:
    kind: StepKind
    why: str
    """A part of a sentence."""
    changes: Mapping[str, str | None]
    """Properties and their new values, None for those that go."""


@dataclass(frozen=True, slots=True)
class VersionChange:
    found: int
    target: int
    steps: tuple[VersionStep, ...]
    """In their order; none where the table is there already."""


def plan_version_change(
    base_path: str, config: TableConfig, metadata: TableConfig | None, target: int, *, is_upgrade: bool
) -> VersionChange:
    """The steps that are left to do.

    Args:
        metadata: the properties of the metadata table, where there is one.
        is_upgrade: what was asked for; a target on the other side is an error.

    Raises `UsageError` and `Refused`.
    """
    found = config.version.number
    assert found is not None, "eligibility refuses a table without a version"
    if (target < found) if is_upgrade else (target > found):
        verb, other = ("upgraded", "downgrade") if is_upgrade else ("downgraded", "upgrade")
        raise UsageError(
            f"{base_path} cannot be {verb} to version {target}.",
            why=f"It has version {found}.",
            remedy=f"Give another version with --to, or run `lakeward table {other}`.",
        )
    if found != target and (found, target) not in _OURS:
        raise _left_to_hudi(base_path, found, target)
    of_metadata = metadata.version.number if metadata is not None else target
    if of_metadata != target and (of_metadata, target) not in _OURS:
        raise Refused(
            f"The metadata table of {base_path} has version {of_metadata}, and the table {found}.",
            why="A change of the versions was begun by another program and not ended, or the metadata table is an old "
            "one that no writer keeps.",
            remedy="Remove it with `lakeward metadata disable`; Hudi's next writer that has it on builds it anew.",
        )
    if target > found:
        _check_upgradable(base_path, config, target)
    steps: list[VersionStep] = []
    if metadata is not None and (changes := dict(_changes(metadata, target))):
        steps.append(VersionStep(StepKind.METADATA_PROPERTIES, "it has the version of its table", changes))
    if changes := dict(_changes(config, target)):
        steps.append(VersionStep(StepKind.PROPERTIES, "all else is done once this is", changes))
    return VersionChange(found, target, tuple(steps))


def _changes(config: TableConfig, target: int) -> Iterator[tuple[str, str | None]]:
    if config.version.number == target:
        return
    yield VERSION, str(target)
    if config.get(META_FIELDS_MODE) is None:
        yield META_FIELDS_MODE, _ALL if config.populate_meta_fields else _NONE
    else:
        _check_mode(config)


def _check_mode(config: TableConfig) -> None:
    """Hudi opens no table of version 10 whose mode it does not know, nor one of the two that fits the table's type."""
    mode = (config.get(META_FIELDS_MODE) or "").upper()
    if mode in (_ALL, _NONE) or (mode in _SELECTIVE and not config.is_merge_on_read):
        return
    raise Refused(
        f"{config.name} has {META_FIELDS_MODE}={config.get(META_FIELDS_MODE)}.",
        why="A merge-on-read table has all meta columns or none."
        if mode in _SELECTIVE
        else "Hudi knows no such mode, and readers of version 10 fail over it.",
        remedy="Find out who set it, and correct or remove it in hoodie.properties; nothing was changed.",
    )


def _check_upgradable(base_path: str, config: TableConfig, target: int) -> None:
    """Raises `Refused` where the new version would mean something else, or fail."""
    why = remedy = ""
    if inner := [field for field in config.ordering_fields if "." in field]:
        why = (
            f"Its rows are ordered by {', '.join(inner)}, a field inside of another, for which files of deletes of "
            "that version have no column: Hudi fails on the first delete."
        )
        remedy = "Leave it at its version, or order its rows by columns of their own."
    elif (layout := (config.get(STORAGE_LAYOUT) or _DEFAULT_LAYOUT).lower()) != _DEFAULT_LAYOUT:
        why = (
            f"It has {STORAGE_LAYOUT}={layout}, which means nothing before version 10; from then on readers trust that "
            "every file is sorted."
        )
        remedy = f"Remove {STORAGE_LAYOUT} from hoodie.properties; nothing was changed."
    if why:
        raise Refused(f"{base_path} cannot be upgraded to version {target}.", why=why, remedy=remedy)


def _left_to_hudi(base_path: str, found: int, target: int) -> Refused:
    if target not in _SERVED:
        return Refused(
            f"{base_path} cannot get version {target}.",
            why=f"It has version {found}, and this release knows the versions 6 to 10.",
            remedy="Give another version with --to; nothing was changed.",
        )
    if found > target:
        how = f"CALL downgrade_table(table => '…', to_version => '{_WORDS.get(target, target)}') in its Spark SQL"
    else:
        how = f"a write with hoodie.write.table.version={target}, or CALL upgrade_table in its Spark SQL"
    return Refused(
        f"{base_path} is left to Hudi between versions {found} and {target}.",
        why="This release goes between 9 and 10, one way at a time; between older versions Hudi compacts the whole "
        "table first and rewrites what says how rows are merged.",
        remedy=f"Let Hudi do it: {how}; nothing was changed.",
    )


_WORDS: Final = {6: "SIX", 8: "EIGHT", 9: "NINE"}
