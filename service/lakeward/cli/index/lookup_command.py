"""`lakeward index lookup TABLE KEYS…`: where an index says that record keys are. Reads only, and takes no lock.

Touches: stdin where the keys come from it; stdout, stderr; the table, reading only.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc
import typer
from rich.console import Console
from rich.text import Text

from lakeward.base.clock import SystemClock
from lakeward.base.errors import UsageError
from lakeward.base.quantities import format_count, format_share
from lakeward.cli.configured_table import ConfiguredTable, ZonedTable
from lakeward.cli.index.group import (
    KeysFileOption,
    PartitionsOption,
    TypeOption,
    WithLogsOption,
    given_keys,
    work_watched,
)
from lakeward.cli.index.own_index import DatabaseOption, indexes_of
from lakeward.cli.options.engine import EngineArguments
from lakeward.cli.result import Result, shown
from lakeward.cli.serviced import interruptible
from lakeward.cli.terminal import Column, NameCell, Rendered, id_cell, new_table
from lakeward.index.bloom.bloom_index import BloomIndex, LookupPlan
from lakeward.index.bloom.key_spans import RULED_OUT_MIN
from lakeward.index.index import HashedIndex, record_locations
from lakeward.index.index_of_type import type_of_choice
from lakeward.index.index_type import IndexType, LookupType
from lakeward.index.location import FILE_ID, INSTANT, PARTITION_PATH, RECORD_KEY, locations_of
from lakeward.services.indexing.run.lookup_job import look_up_by_job

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakeward.cli.configured_table import ConfiguredTable
    from lakeward.index.index import Index
    from lakeward.table.snapshot import TableSnapshot


def lookup(
    *,
    opened: ZonedTable,
    keys: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEYS]...",
            help="Record keys, as `_hoodie_record_key` has them: `a:1,b:2` where a key has several fields.",
        ),
    ] = None,
    keys_file: KeysFileOption = None,
    index_type: TypeOption = None,
    partition: PartitionsOption = None,
    as_of: Annotated[
        str | None,
        typer.Option(
            "--as-of",
            metavar="INSTANT",
            help="Look up where keys were right after the write of this instant completed. Only with --type record, "
            "if it was brought up to date then and not merged since.",
        ),
    ] = None,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help="Show how many base files would be searched for how many keys, using their key ranges, and search "
            "none. Only with --type bloom.",
        ),
    ] = False,
    with_logs: WithLogsOption = False,
    engine: EngineArguments,
    url: DatabaseOption = None,
) -> Result:
    """Show in which partition and file group each record key is, and which commit put it there. Reads only.

    The simple index reads the keys of base files, all of them but for --partition, and knows no key that is in logs
    alone; nor does bloom, which reads the keys of those files alone whose footer does not rule them out. A key that is
    not found is said to be not found: that is an answer, and the exit code is 0.

    With --engine or --master keys of the types record and metadata are looked up by tasks, as many as the parts
    of the index that are asked have files; else all of it is done in this process.
    """
    wanted = given_keys(keys, keys_file)
    if not len(wanted):
        raise UsageError("No record key is given.", remedy="Name keys behind the table, or a file with --keys-file.")
    snapshot = opened.snapshot()
    chosen = index_type or type_of_choice(snapshot)
    by_job = [name for name, said in engine.by_option().items() if said]
    if by_job:
        _check_by_job(chosen, by_job, as_of=as_of, explain=explain)
    if explain:
        return _explain(opened, snapshot, chosen, wanted, partition)
    if as_of is not None:
        found = _found_as_of(opened, snapshot, chosen, wanted, as_of)
    else:
        with indexes_of(opened, url).reader(chosen, with_logs=with_logs) as opens, work_watched() as on_step:
            index = opens(snapshot)
            if by_job:
                found = _found_by_job(opened, index, wanted, partition, engine, on_step)
            else:
                on_part = partial(on_step, "looked into {} of {} parts of the index")
                found = record_locations(opened.storage, index, wanted, partition, on_part=on_part)
    return Rendered(
        document=looked_up_as_json(opened.base_path, chosen, wanted, found),
        render=partial(render_looked_up, chosen, wanted, found),
    )


def _check_by_job(kind: LookupType, options: list[str], *, as_of: str | None, explain: bool) -> None:
    """Raises `UsageError` where keys are looked up in this process alone."""
    reasons = {
        IndexType.SIMPLE: "Any file may have any key, and each task would read all of them.",
        IndexType.BLOOM: "Which files may have a key is known once their filters were asked, which is done here.",
        IndexType.POSTGRES: "Tasks are given no credentials of the database.",
    }
    if kind in reasons:
        raise UsageError(
            f"The {kind} index is asked in this process.",
            why=reasons[kind],
            remedy=f"Leave {', '.join(options)} out, or name --type record or metadata.",
        )
    if as_of is not None or explain:
        raise UsageError(
            f"{'--explain' if explain else '--as-of'} is answered in this process.",
            why="Tasks look keys up as the table is now.",
            remedy=f"Leave {', '.join(options)} out.",
        )


def _found_by_job(
    opened: ConfiguredTable,
    index: Index,
    keys: pa.Array,
    partitions: list[str] | None,
    engine: EngineArguments,
    on_step: Callable[[str, int, int], None],
) -> pa.Table:
    assert isinstance(index, HashedIndex), "of these types each is one"
    on_run = partial(on_step, "looked up {} of {} runs of keys")
    with engine.over(opened.settings, memory_bytes=opened.table.memory) as engines, interruptible() as guard:
        found = look_up_by_job(opened.base_path, index, keys, partitions, engines.choose, guard=guard, on_run=on_run)
        return locations_of(found)


def _explain(
    opened: ConfiguredTable,
    snapshot: TableSnapshot,
    kind: LookupType,
    keys: pa.Array,
    partitions: list[str] | None,
) -> Result:
    if kind is not IndexType.BLOOM:
        raise UsageError(
            f"The {kind} index does not plan its lookups by ranges.", remedy="Name --type bloom, or leave it out."
        )
    index = BloomIndex.of(opened.storage, snapshot, clock=SystemClock())
    plan = index.plan(opened.storage, index.parts(partitions), keys)
    return Rendered(document=plan_as_json(opened.base_path, plan), render=partial(render_plan, plan))


def _found_as_of(
    opened: ConfiguredTable, snapshot: TableSnapshot, kind: LookupType, keys: pa.Array, instant: str
) -> pa.Table:
    if kind is not IndexType.RECORD:
        raise UsageError(
            f"The {kind} index knows where keys are, and not where they were.",
            remedy="Name --type record, or ask `lakeward index changes` what commits did.",
        )
    return indexes_of(opened, None).locations_as_of(snapshot, keys, instant)


_COLUMNS = {
    "key": Column.ELASTIC,
    "partition": Column.ELASTIC,
    "file group": Column.FIXED,
    "commit": Column.FIXED,
    "found by": Column.FIXED,
}


def looked_up_as_json(base_path: str, asked: LookupType, keys: pa.Array, found: pa.Table) -> dict[str, Any]:
    return {
        "base_path": base_path,
        "type": asked.value,
        "keys": len(keys),
        "locations": [
            {
                "key": row[RECORD_KEY],
                "partition_path": row[PARTITION_PATH],
                "file_id": row[FILE_ID],
                "commit": row[INSTANT],
                "found_by": asked.value,
            }
            for row in _sorted(found)
        ],
        "not_found": not_found(keys, found).to_pylist(),
    }


def render_looked_up(asked: LookupType, keys: pa.Array, found: pa.Table, console: Console) -> None:
    missing = not_found(keys, found)
    if found.num_rows:
        table = new_table(_COLUMNS)
        for row in _sorted(found):
            table.add_row(
                NameCell(row[RECORD_KEY]),
                NameCell(row[PARTITION_PATH]),
                id_cell(row[FILE_ID], console),
                Text(row[INSTANT] or ""),
                Text(asked.value),
            )
        console.print(table)
    for key in missing.to_pylist():
        console.print(Text(shown(f"{key}: not found by the {asked} index.")))
    console.print(f"{len(keys) - len(missing):,} of {format_count(len(keys), 'key')} found.")


def not_found(keys: pa.Array, found: pa.Table) -> pa.Array:
    return keys.filter(pc.invert(pc.is_in(keys, found.column(RECORD_KEY).combine_chunks())))


def _sorted(found: pa.Table) -> list[dict[str, Any]]:
    by = [(name, "ascending") for name in (RECORD_KEY, PARTITION_PATH, FILE_ID)]
    rows: list[dict[str, Any]] = found.sort_by(by).to_pylist()
    return rows


def plan_as_json(base_path: str, plan: LookupPlan) -> dict[str, Any]:
    return {
        "base_path": base_path,
        "type": IndexType.BLOOM.value,
        "keys": len(plan.spans.keys),
        "files": len(plan.parts),
        "ranges_known": plan.ranges,
        "separates": plan.spans.separates,
        "files_left": plan.files_left,
        "pairs": plan.pairs,
        "pairs_of": plan.pairs_of,
    }


def render_plan(plan: LookupPlan, console: Console) -> None:
    console.print(f"The ranges of keys of {plan.ranges:,} of {len(plan.parts):,} base files are known unopened.")
    if plan.spans.separates:
        console.print(
            f"They leave {plan.pairs:,} of {plan.pairs_of:,} pairs of a file and a key, in {plan.files_left:,} files, "
            "whose filters are asked."
        )
    else:
        console.print(
            f"They rule out less than {format_share(RULED_OUT_MIN)} of the pairs of a file and a key, so that the "
            "filter of each file is asked for all keys."
        )
