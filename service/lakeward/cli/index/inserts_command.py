"""`lakeward index inserts TABLE`: whether new keys of a table may go into its logs, and whether any was doubled since.

Touches: stdout, stderr; the folder of `index/log_inserts`; the table, reading, and with --compact through
         `cli/full_compaction.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from lakeward.base.clock import SystemClock
from lakeward.base.errors import UsageError
from lakeward.cli.configured_table import ZonedTable
from lakeward.cli.full_compaction import compact_fully
from lakeward.cli.options.engine import EngineArguments
from lakeward.cli.options.lock import LockArguments
from lakeward.cli.result import Result
from lakeward.cli.serviced import compaction_options
from lakeward.index.log_inserts import LogInserts
from lakeward.protocol.index.inserts import check_inserts
from lakeward.services.indexing.run.insert_choice import end_into_logs, groups_with_logs, let_into_logs


def inserts(
    *,
    opened: ZonedTable,
    into_logs: Annotated[
        bool,
        typer.Option(
            "--into-logs",
            help="New keys go into the logs of small file groups. Say so only if every writer of the table finds keys "
            "by its record index.",
        ),
    ] = False,
    only_lakeward: Annotated[
        bool,
        typer.Option(
            "--only-lakeward",
            help="With --into-logs: no other program writes the table. Then `lakeward write --index bloom` finds keys "
            "in logs, and puts new ones there, too.",
        ),
    ] = False,
    into_base_files: Annotated[
        bool, typer.Option("--into-base-files", help="New keys go into base files, as by default.")
    ] = False,
    compact: Annotated[
        bool,
        typer.Option(
            "--compact",
            help="With --into-base-files: compact (FULL) each file group that has logs, so that no key is left in logs "
            "alone, before other writers write the table.",
        ),
    ] = False,
    given: LockArguments,
    engine: EngineArguments,
) -> Result:
    """Say whether `lakeward write` may put new keys into the logs of small file groups, on merge-on-read tables.

    Small inserts then make no new base files. It costs two things. A writer with another index, such as Hudi's default
    (SIMPLE), looks at base files alone and inserts such a key again, so queries give both rows. And read-optimized
    queries see the new rows only after a FULL compaction. The table remembers what was said; upserts with the indexes
    metadata, record and postgres follow it, and with --only-lakeward those with bloom. Without options, or before each
    write, the commits since are checked for keys that are in a base file and in a log: refused with exit 2 if there are
    any.
    """
    if into_logs and into_base_files:
        raise UsageError("--into-logs and --into-base-files exclude each other.", remedy="Give one of them.")
    storage, base_path = opened.storage, opened.base_path
    if only_lakeward and not into_logs:
        raise UsageError("--only-lakeward needs --into-logs.", remedy="Give both, or neither.")
    if compact and not into_base_files:
        raise UsageError("--compact needs --into-base-files.", remedy="Give both, or neither.")
    if into_logs:
        said = let_into_logs(storage, opened.snapshot(), only_lakeward=only_lakeward)
    elif into_base_files:
        options = compaction_options(opened, given.over(opened, dry_run=False)) if compact else None
        said = end_into_logs(storage, base_path, opened.snapshot)
        if options is not None and said.may_hold_keys:
            compact_fully(opened, groups_with_logs(opened.snapshot()), options, engine, dry_run=False)
            said = end_into_logs(storage, base_path, opened.snapshot)
    else:
        said = check_inserts(storage, base_path, opened.snapshot, clock=SystemClock())
    return Result(
        document={
            "base_path": base_path,
            "into_logs": said.into_logs,
            "may_hold_keys": said.may_hold_keys,
            "only_lakeward": said.only_lakeward,
            "through": said.through,
        },
        lines=list(_lines(said)),
    )


def _lines(said: LogInserts) -> Iterator[str]:
    if said.into_logs:
        yield "New keys go into the logs of small file groups."
    else:
        yield "New keys go into base files."
        if said.may_hold_keys:
            refused = "simple" if said.only_lakeward else "simple and bloom"
            yield (
                f"Some may still be in logs alone, so writes by {refused} are refused until every file group that "
                "has logs is compacted: run this command with --into-base-files --compact."
            )
    if said.may_hold_keys:
        checked = "of the table so far" if said.through is None else f"complete by {said.through}"
        yield f"No key is in a log and a base file: checked the commits {checked}."
