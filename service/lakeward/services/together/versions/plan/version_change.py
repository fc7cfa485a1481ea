"""What an upgrade or a downgrade changes of a table: its properties and those of its metadata table in, steps out.

    9 -> 10    the metadata table's properties -> the table's
    10 -> 9    the metadata table goes, where anything has native logs -> failed writes rolled back -> FULL -> logs of
               changes that the operator gives up -> clean, until no native log is left anywhere
               (`services/together/versions/plan/native_files.py`) -> the same properties

A step is what is next on the table as it is; what follows is found by looking again.

The metadata table goes first, as with Hudi: a process that begins again, Lakeward or Hudi, reads the version of the
table, and takes all else for done by it.

Touches: nothing.
Keeps:   1. the version of the table itself is the last thing to change;
         2. properties that are not named keep their values, and so does a mode of meta fields that is there;
         3. no table gets version 9 that has a native log, or something pending that a writer failed to end;
         4. a change of which Hudi's rules are not known here is refused, with the way to have Hudi do it.
Source:  UpgradeDowngrade, NineToTenUpgradeHandler, TenToNineDowngradeHandler, MetaFieldsMode (Hudi's master, August
         2026)
See:     docs/decisions/0068-upgrade-and-downgrade.md
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from lakeward.base.errors import Refused, UsageError
from lakeward.services.together.versions.plan.change_step import ChangeStep, StepKind
from lakeward.services.together.versions.plan.native_files import NativeFiles, NativeObstacle
from lakeward.table.file_group import FileSlice
from lakeward.table.table_config import (
    LSM_TREE_SINCE,
    META_FIELDS_MODE,
    POPULATE_META_FIELDS,
    STORAGE_LAYOUT,
    VERSION,
    TableConfig,
)
from lakeward.table.table_version import CHANGES, KNOWN, NAMES, TableVersion

_ALL: Final = "ALL"
_NONE: Final = "NONE"
_SELECTIVE: Final = frozenset({"COMMIT_TIME_ONLY", "FILE_NAME_ONLY", "COMMIT_TIME_AND_FILE_NAME"})
_SHOWN: Final = 20
_DEFAULT_LAYOUT: Final = "default"


@dataclass(frozen=True, slots=True)
class VersionChange:
    found: int
    target: int
    steps: tuple[ChangeStep, ...]
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
    if found != target and (found, target) not in CHANGES:
        raise _left_to_hudi(base_path, found=found, target=target)
    of_metadata = metadata.version.number if metadata is not None else target
    if of_metadata != target and (of_metadata, target) not in CHANGES:
        raise Refused(
            f"The metadata table of {base_path} has version {of_metadata}, and the table {found}.",
            why="A change of the versions was begun by another program and not ended, or the metadata table is an old "
            "one that no writer keeps.",
            remedy="Remove it with `lakeward metadata disable`; Hudi's next writer that has it on rebuilds it.",
        )
    if target > found:
        _check_upgradable(base_path, config, target)
    steps: list[ChangeStep] = []
    if metadata is not None and (changes := dict(_changes(metadata, target))):
        steps.append(ChangeStep(StepKind.METADATA_PROPERTIES, "it has the version of its table", changes))
    if changes := dict(_changes(config, target)):
        steps.append(ChangeStep(StepKind.PROPERTIES, "all else is done once this is", changes))
    return VersionChange(found, target, tuple(steps))


def plan_way_down(
    base_path: str,
    failed: Sequence[str],
    natives: NativeFiles,
    *,
    pending_cleans: Sequence[str],
    of_metadata: Sequence[str],
    has_metadata: bool,
) -> tuple[ChangeStep, ...]:
    """What is to be done before a table of version 10 may have version 9. The first step is certain; what follows is
    what is known of it now. Raises `Refused` for what only the operator can clear away.

    Args:
        failed: instants that `lakeward rollback` would end.
        pending_cleans: instants of cleans that are ended, which may name native files.
        of_metadata: paths of the native files of the metadata table, which there is where `has_metadata`.
    """
    if natives.obstacles:
        raise _obstructed(base_path, natives.obstacles)
    steps: list[ChangeStep] = []
    if of_metadata or (has_metadata and (natives.to_merge or natives.changes or natives.to_clean)):
        why = "it has native logs, or gets some from what comes now; Hudi's next writer that has it on rebuilds it"
        steps.append(ChangeStep(StepKind.METADATA_TABLE, why, subjects=tuple(of_metadata)))
    if failed:
        why = "what they left has names that no reader of version 9 can roll back"
        steps.append(ChangeStep(StepKind.ROLLBACK, why, subjects=tuple(failed)))
    if natives.to_merge:
        groups = tuple("/".join(part for part in each.group_id if part) for each in natives.to_merge)
        size = sum(each.bytes for each in natives.to_merge)
        why = "the newest rows of these file groups are in native logs"
        steps.append(ChangeStep(StepKind.COMPACTION, why, subjects=groups, bytes=size))
    if natives.changes:
        logs = tuple(f"{log.instant}: {log.path}" for log in natives.changes)
        size = sum(log.size for log in natives.changes)
        why = "they are given up; a query of changes that reads one of these commits from its log fails from then on"
        steps.append(ChangeStep(StepKind.CHANGES, why, subjects=logs, bytes=size))
    if natives.to_merge:
        size = sum(each.bytes for each in natives.to_merge)
        why = "what was merged stays in the slices before; the table can then be read as of the compaction and later"
        steps.append(ChangeStep(StepKind.CLEAN, why, subjects=_files(natives.to_merge), bytes=size))
    elif natives.to_clean:
        size = sum(each.bytes for each in natives.to_clean)
        why = f"older slices have native logs; the table can then be read as of {natives.earliest} and later"
        steps.append(ChangeStep(StepKind.CLEAN, why, subjects=_files(natives.to_clean), bytes=size))
    elif pending_cleans:
        why = "a clean that was begun is ended by the version that it was begun at"
        steps.append(ChangeStep(StepKind.CLEAN, why, subjects=tuple(pending_cleans)))
    if not steps and natives.waiting:
        raise _obstructed(base_path, natives.waiting)
    return tuple(steps)


def _files(slices: Sequence[FileSlice]) -> tuple[str, ...]:
    return tuple(file.path for each in slices for file in each.files)


def _obstructed(base_path: str, obstacles: Sequence[NativeObstacle]) -> Refused:
    shown = [f"{each.path}: {each.why}" for each in obstacles[:_SHOWN]]
    more = f"; and {len(obstacles) - _SHOWN} more" if len(obstacles) > _SHOWN else ""
    return Refused(
        f"{base_path} cannot be downgraded: {len(obstacles)} of its native logs have to stay.",
        why=f"Readers of version 9 take each for a base file. {'; '.join(shown)}{more}.",
        remedy=f"{' '.join(dict.fromkeys(each.remedy for each in obstacles))} Then give the command again.",
    )


def _changes(config: TableConfig, target: int) -> Iterator[tuple[str, str | None]]:
    if config.version.number == target:
        return
    yield VERSION, str(target)
    mode = config.get(META_FIELDS_MODE)
    if mode is not None:
        _check_mode(config)
    if TableVersion(target).has_meta_fields_mode:
        if mode is None:
            yield META_FIELDS_MODE, _ALL if config.populate_meta_fields else _NONE
        return
    for name in (STORAGE_LAYOUT, LSM_TREE_SINCE):
        if config.get(name) is not None:
            yield name, None
    if mode is None:
        return
    yield POPULATE_META_FIELDS, "true" if mode.upper() == _ALL else "false"
    if mode.upper() not in _SELECTIVE:
        yield META_FIELDS_MODE, None
    elif config.initial_version.has_meta_fields_mode:
        raise Refused(
            f"{config.name} has {META_FIELDS_MODE}={mode}, which version {target} does not know.",
            why="It was made at version 10, so no reader of an older one has shown that it respects the mode; one that "
            "does not takes all meta columns for missing.",
            remedy="Rewrite the table with all meta columns or none; or let Hudi downgrade it, which has an option "
            "to keep the mode.",
        )


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


def _left_to_hudi(base_path: str, *, found: int, target: int) -> Refused:
    if target not in KNOWN:
        return Refused(
            f"{base_path} cannot get version {target}.",
            why=f"It has version {found}, and this release knows the versions 6 to 10.",
            remedy="Give another version with --to; nothing was changed.",
        )
    if found > target:
        how = f"CALL downgrade_table(table => '…', to_version => '{NAMES.get(target, target)}') in its Spark SQL"
    else:
        how = f"a write with hoodie.write.table.version={target}, or CALL upgrade_table in its Spark SQL"
    return Refused(
        f"{base_path} is left to Hudi between versions {found} and {target}.",
        why="This release goes between 9 and 10, one way at a time; between older versions Hudi compacts the whole "
        "table first and rewrites what says how rows are merged.",
        remedy=f"Let Hudi do it: {how}; nothing was changed.",
    )
