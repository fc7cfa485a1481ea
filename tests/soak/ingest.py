"""A process that ingests into a table whose logs have tails, by the bloom index and new keys into logs, until it is
killed: upserts of old and new keys, deletes, compactions in between, and cleans.

What a step does follows from its number alone, and doing it again changes nothing. So a process that comes after one
that was killed begins with the step that was not reported as done, and `rows_after` says what the table holds.

    python -m tests.soak.ingest FOLDER

For each line that this reads it starts such a process by a fork, since imports and kernels take longer than a step; it
prints the process' id, and how it ended. At the end of its input it ends.

FOLDER/table      the table
FOLDER/journal    the number of each step that is done
FOLDER/slept      the seconds that its clock has skipped

Touches: the table, FOLDER.
Keeps:   a step is in the journal only once it was committed.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from random import Random

from lakeward.base.kernel import make_imported
from lakeward.index.index_type import IndexType
from lakeward.protocol.owner import Processes
from lakeward.services.archive.plan.hudi_archiver_keys import ArchiveOptions
from lakeward.services.archive.run.archiver import Archiver
from lakeward.services.clean.run.cleaner import Cleaner
from lakeward.services.indexing.run.insert_choice import let_into_logs
from lakeward.services.indexing.run.tails import choose_tails
from lakeward.storage.local import LocalStorage
from tests.clocks import SkippingClock
from tests.crash.compacting import FULL, LOG, compactor
from tests.our_reader import scan
from tests.services.clean.run.cleaning import choose_old
from tests.services.metadata.run.compacting_metadata import serviced_table
from tests.write.writing import new_table, rows_of, write

STORAGE = LocalStorage()
NEW_KEYS, OLD_KEYS, GONE_KEYS = 30, 60, 8
DELETES_EVERY, LOG_EVERY, FULL_EVERY, CLEAN_EVERY = 4, 5, 9, 10
_SKIPPED_MAX = 120.0
"""So many seconds, which cost nothing, a step waits at most."""

Row = tuple[str, int, str, str]


def make(folder: Path) -> None:
    base = new_table(folder / "table")
    choose_tails(STORAGE, scan(base), are_written=True)
    let_into_logs(STORAGE, scan(base), only_lakeward=True)


def step_of(number: int) -> tuple[str, list[Row]]:
    """Operation and rows. Of the new keys of a step some are deleted by a later one, and come again still later."""
    chance = Random(number)
    if number % DELETES_EVERY == DELETES_EVERY - 1:
        return "delete", [_row(key, number) for key in chance.sample(_new_keys(number - 1), GONE_KEYS)]
    old = {key for _ in range(OLD_KEYS) if number for key in [chance.choice(_new_keys(chance.randrange(number)))]}
    return "upsert", [_row(key, number) for key in sorted({*old, *_new_keys(number)})]


def _new_keys(number: int) -> list[str]:
    return [f"key-{number}-{each}" for each in range(NEW_KEYS)]


def _row(key: str, number: int) -> Row:
    return key, number, f"p{int(key.rpartition('-')[2]) % 2}", f"step {number}"


def rows_after(steps: int) -> dict[str, Row]:
    """The rows that so many steps leave, by their keys."""
    rows: dict[str, Row] = {}
    for number in range(steps):
        operation, came = step_of(number)
        for row in came:
            if operation == "delete":
                rows.pop(row[0], None)
            else:
                rows[row[0]] = row
    return rows


def steps_done(folder: Path) -> int:
    journal = folder / "journal"
    return len(journal.read_text().splitlines()) if journal.exists() else 0


def finish(folder: Path) -> int:
    """Do the step that may have been begun and is not reported as done. How many are done then."""
    number, clock, slept = steps_done(folder), SkippingClock(), folder / "slept"
    if slept.exists():  # times of the table are ahead of a clock that has skipped nothing
        clock.slept = float(slept.read_text()) + _SKIPPED_MAX
    _do(folder / "table", number, clock)
    (folder / "slept.new").write_text(str(clock.slept))
    (folder / "slept.new").replace(slept)
    with (folder / "journal").open("a") as journal:
        journal.write(f"{number}\n")
        journal.flush()
        os.fsync(journal.fileno())
    return number + 1


def _do(base: Path, number: int, clock: SkippingClock) -> None:
    operation, rows = step_of(number)
    write(base, rows, operation, processes=Processes(), clock=clock, index=IndexType.BLOOM)
    for every, planner in ((LOG_EVERY, LOG), (FULL_EVERY, FULL)):
        if number % every == every - 1:
            compactor(base, STORAGE, Processes(), planner, clock=clock).compact()  # type: ignore[arg-type]
    if number % CLEAN_EVERY == CLEAN_EVERY - 1:
        table = replace(serviced_table(str(base), STORAGE, Processes()), clock=clock)
        Cleaner(table, {}, keep_seconds=0.0).clean(choose_old)
        table = replace(serviced_table(str(base), STORAGE, Processes()), clock=clock)
        Archiver(table, ArchiveOptions(20, 30, 10, 10)).archive()


def main(folder: Path) -> None:
    rows_of([_row("of-0", 0)])  # for this Arrow imports what it imports late
    make_imported()
    for _ in sys.stdin:
        if not (process := os.fork()):
            while True:
                finish(folder)
        print(process, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
