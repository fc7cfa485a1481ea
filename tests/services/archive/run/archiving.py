"""Archiving of a golden table, with or without a fault."""

from __future__ import annotations

from pathlib import Path

from lakeward.format.timeline.history_file import decode_rows
from lakeward.format.timeline.instant import Instant, State
from lakeward.protocol.owner import Processes
from lakeward.services.archive.plan.hudi_archiver_keys import ArchiveOptions
from lakeward.services.archive.run.archiver import Archiver, ArchiveReport
from lakeward.storage.local import LocalStorage
from lakeward.storage.storage import Storage
from lakeward.table.table_config import load_table_config
from lakeward.table.timeline.archived import History, history_folder, load_history
from lakeward.table.timeline.timeline import load_timeline
from tests.clocks import SkippingClock
from tests.processes import ScriptedProcesses
from tests.services.metadata.run.compacting_metadata import serviced_table

SOON = ArchiveOptions(1, 1, 1, 1, level_files=2, manifests_kept=1)
"""All goes that may: of the golden tables of version 9 the first two of four commits."""


def archiver(
    base: Path | str,
    storage: Storage | None = None,
    processes: Processes | None = None,
    *,
    options: ArchiveOptions = SOON,
    **words: object,
) -> Archiver:
    return Archiver(
        serviced_table(str(base), storage or LocalStorage(), processes or ScriptedProcesses(), **words), options
    )


def archive(
    base: Path | str,
    storage: Storage | None = None,
    processes: Processes | None = None,
    *,
    options: ArchiveOptions = SOON,
    **words: object,
) -> ArchiveReport:
    return archiver(base, storage, processes, options=options, **words).archive()


def folder_of(base: Path) -> str:
    return history_folder(str(base), load_table_config(LocalStorage(), str(base), clock=SkippingClock()).config)


def history_of(base: Path) -> History:
    return load_history(LocalStorage(), folder_of(base))


def archived_rows(base: Path) -> list[tuple[str, str, str | None]]:
    """Instant, action and completion time of each row, by time; twice what is there twice."""
    rows = []
    for file in history_of(base).sizes:
        with (Path(folder_of(base)) / file.name).open("rb") as source:
            rows += [(row.time, row.action, row.completion_time) for row in decode_rows(source, path=file.name)]
    return sorted(rows)


def completed(base: Path) -> list[Instant]:
    """On the active timeline."""
    config = load_table_config(LocalStorage(), str(base), clock=SkippingClock()).config
    return [i for i in load_timeline(LocalStorage(), str(base), config).instants if i.state is State.COMPLETED]


def all_instants(base: Path) -> set[tuple[str, str, str | None]]:
    """Every instant that is completed, wherever it is."""
    return {(each.time, each.action, each.completion_time) for each in completed(base)} | set(archived_rows(base))
