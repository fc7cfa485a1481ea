"""Cleans of a golden table that was compacted once: the slice before is dead, base file and logs."""

from __future__ import annotations

from pathlib import Path

from lakeward.format.timeline.clean_metadata import CleanMetadata, read_clean_metadata
from lakeward.format.timeline.clean_plan import CleanPlan
from lakeward.format.timeline.instant import State, parse_instant
from lakeward.protocol.owner import Processes
from lakeward.services.clean.plan.planner import plan_clean
from lakeward.services.clean.plan.policy import CleanPolicy, CleanPolicyKind
from lakeward.services.clean.plan.storage_states import NO_QUARANTINE
from lakeward.services.clean.run.cleaner import Cleaner, CleanReport
from lakeward.storage.storage import Storage
from lakeward.table.quarantine import Quarantine, load_quarantine
from lakeward.table.snapshot import TableSnapshot
from tests.crash.compacting import compact
from tests.faults import FaultyStorage
from tests.golden_tables import copy_golden
from tests.processes import ScriptedProcesses
from tests.services.metadata.run.compacting_metadata import serviced_table
from tests.version_10 import made_native

TIMELINE = ".hoodie/timeline"
NATIVE = "native"


def compacted(golden: str, path: Path) -> Path:
    """A copy of a golden table with one compaction more, and the slice before it.

    Args:
        golden: `NATIVE` for that of version 9 as one of version 10.
    """
    base = copy_golden("v9" if golden == NATIVE else golden, path)
    if golden == NATIVE:
        made_native(base)
    compact(base, FaultyStorage(), ScriptedProcesses())
    return base


def choose_old(snapshot: TableSnapshot, quarantine: Quarantine = NO_QUARANTINE) -> CleanPlan | None:
    """All but the newest slices."""
    policy = CleanPolicy(CleanPolicyKind.VERSIONS, 1)
    outcome = plan_clean(snapshot, policy, now=0.0, left_in_place=quarantine.left_in_place())
    return outcome.plan({}) if any(outcome.dead) else None


def cleaner(
    base: Path | str,
    storage: Storage,
    processes: Processes | None = None,
    *,
    keep_seconds: float = 0.0,
    **options: object,
) -> Cleaner:
    table = serviced_table(str(base), storage, processes or ScriptedProcesses(), **options)
    return Cleaner(table, {}, keep_seconds=keep_seconds)


def clean(
    base: Path | str,
    storage: Storage,
    processes: Processes | None = None,
    *,
    keep_seconds: float = 0.0,
    **options: object,
) -> CleanReport:
    def choose(snapshot: TableSnapshot) -> CleanPlan | None:
        return choose_old(snapshot, load_quarantine(storage, str(base)))

    return cleaner(base, storage, processes, keep_seconds=keep_seconds, **options).clean(choose)


def data_files(base: Path) -> set[str]:
    """Data files of the table, by path below it."""
    paths = (path for path in base.rglob("*") if path.is_file() and ".hoodie" not in path.relative_to(base).parts)
    return {
        str(path.relative_to(base)) for path in paths if not path.name.startswith(".hoodie") and path.suffix != ".crc"
    }


def contents(base: Path) -> dict[str, bytes]:
    """Data files by path below the table, wherever they are: in their places, or in the quarantine."""
    found = {path: (base / path).read_bytes() for path in data_files(base)}
    for run in (base / ".hoodie" / ".quarantine").glob("*/files"):
        for path in run.rglob("*"):
            if path.is_file() and path.suffix != ".crc":
                found[str(path.relative_to(run))] = path.read_bytes()
    return found


def completed_cleans(base: Path) -> dict[str, CleanMetadata]:
    """What each completed clean says, by its file's name."""
    return {
        path.name: read_clean_metadata(path.read_bytes(), file=path.name)
        for path in sorted((base / TIMELINE).iterdir())
        if (instant := parse_instant(path.name, 2)) is not None
        and (instant.action, instant.state) == ("clean", State.COMPLETED)
    }
