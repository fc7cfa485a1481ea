"""Golden tables whose last write failed, and their rollbacks, with or without a fault."""

from __future__ import annotations

from pathlib import Path

from lakeward.protocol.owner import Processes
from lakeward.protocol.pending.rollback import Step
from lakeward.services.rollback.run.roll_back import RollbackReport, find_decisions, roll_back_writes
from lakeward.storage.storage import Storage
from tests.metadata_golden import DATA_TIMELINE
from tests.processes import LookedOn, ScriptedProcesses
from tests.services.metadata.run.compacting_metadata import serviced_table


def fail_last_write(base: Path, *, before: str = "9") -> str:
    """The last write of the table, or the last one before an instant, never completed: its writer died right before.
    Returns its instant."""
    done = (path for path in (base / DATA_TIMELINE).glob("*_*.deltacommit") if path.name < before)
    last = max(done, key=lambda path: path.name)
    last.unlink()
    return last.name.partition("_")[0]


def mark(base: Path, instant: str, *, in_lists: bool) -> None:
    """The writer left its markers."""
    files = [path for path in base.rglob(f"*{instant}*") if ".hoodie" not in path.relative_to(base).parts]
    markers = [f"{path.relative_to(base)}.marker.CREATE" for path in files]
    folder = base / ".hoodie/.temp" / instant
    if in_lists:
        folder.mkdir(parents=True)
        (folder / "MARKERS.type").write_text("TIMELINE_SERVER_BASED")
        for number, marker in enumerate(markers):
            (folder / f"MARKERS{number}").write_text(f"{marker}\n")
        return
    for marker in markers:
        (folder / marker).parent.mkdir(parents=True, exist_ok=True)
        (folder / marker).touch()


def roll_back(
    base: Path | str, storage: Storage, processes: Processes | None = None, **options: object
) -> RollbackReport:
    """All failed writes, as the command does it."""
    processes = processes or ScriptedProcesses()
    processes.stillness = LookedOn()
    table = serviced_table(str(base), storage, processes, **options)
    todo = [decision.instant for decision in find_decisions(table) if decision.step is not Step.LEAVE]
    return roll_back_writes(table, todo)
