"""`lakeward index compare TABLE --type A --type B`: two indexes asked for the same keys. Reads only.

Touches: stdin where the keys come from it; stdout, stderr; the table, reading only.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console
from rich.text import Text

from lakeward.base.clock import SystemClock
from lakeward.base.errors import UsageError
from lakeward.base.named_key import plain_key
from lakeward.base.quantities import format_size
from lakeward.cli.configured_table import ZonedTable
from lakeward.cli.index.group import (
    KeysFileOption,
    PartitionsOption,
    WithLogsOption,
    given_keys,
    type_option,
    work_watched,
)
from lakeward.cli.index.own_index import DatabaseOption, indexes_of, listed_in_database, put_in_database
from lakeward.cli.index.view import describe_places, places
from lakeward.cli.result import PROBLEMS_EXIT, Result, shown
from lakeward.cli.terminal import Column, Rendered, new_table
from lakeward.index.index_type import IndexType, lookup_type
from lakeward.services.indexing.judge.comparison import ComparedIndex, compare_indexes, draw_keys
from lakeward.services.indexing.judge.comparison import given_keys as keys_given
from lakeward.services.indexing.judge.cost import index_cost
from lakeward.services.indexing.judge.index_list import list_below, list_indexes
from lakeward.services.indexing.table_indexes import RecordPlace

if TYPE_CHECKING:
    from lakeward.services.indexing.judge.comparison import Answers, Comparison


def compare(
    opened: ZonedTable,
    types: Annotated[list[IndexType], type_option("--type", help="The two indexes to compare; give it twice.")],
    keys_file: KeysFileOption = None,
    sample: Annotated[
        int, typer.Option(min=1, metavar="N", help="How many rows to sample from the table, if no keys are given.")
    ] = 10_000,
    absent: Annotated[
        int, typer.Option(min=0, metavar="N", help="How many keys that are in no row to look up besides.")
    ] = 1000,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the sample.")] = 0,
    partition: PartitionsOption = None,
    with_logs: WithLogsOption = False,
    url: DatabaseOption = None,
) -> Result:
    """Ask two indexes for the same keys: which answers differ, which of them are right, and what each takes.

    Reads only; exit 6 where answers differ. Some differences are right: the simple index still finds a key that a log
    deleted, and no key that is only in logs. The counts of false and missed locations show whether an index is broken.
    """
    if len(types) != 2:
        raise UsageError(
            f"{len(types)} index{'' if len(types) == 1 else 'es'} named, and two are compared.",
            remedy="Give --type twice: --type A --type B.",
        )
    both = [lookup_type(each) for each in types]
    snapshot, clock = opened.snapshot(), SystemClock()

    indexes = indexes_of(opened, url)
    listed = [*list_indexes(opened.storage, snapshot, clock=clock)]
    listed += list_below(indexes, snapshot) if IndexType.RECORD in both else ()
    listed += listed_in_database(opened, snapshot, url) if IndexType.POSTGRES in both else ()
    stored = {each.type: each.bytes for each in listed if each.locates}
    with ExitStack() as databases, work_watched() as on_step:
        openers = [databases.enter_context(indexes.reader(kind, with_logs=with_logs)) for kind in both]

        def compared_index(at: int) -> ComparedIndex:
            kind = both[at]
            cost = index_cost(
                opened.storage,
                snapshot,
                kind,
                record_folder=RecordPlace(indexes).folder,
                in_database=partial(put_in_database, opened, url),
                clock=clock,
            )
            return ComparedIndex(kind.value, lambda storage: openers[at](snapshot), stored.get(kind.value), cost)

        if keys_file is not None:
            asked = keys_given(given_keys(None, keys_file), absent=absent)
        else:
            asked = draw_keys(
                opened.storage,
                snapshot,
                number=sample,
                absent=absent,
                seed=seed,
                on_slice=partial(on_step, "drew rows of {} of {} file slices"),
            )
        compared = compare_indexes(
            opened.storage,
            snapshot,
            compared_index(0),
            compared_index(1),
            asked,
            clock=clock,
            partitions=partition,
            on_part=partial(on_step, "looked into {} of {} parts of an index"),
        )
    return Rendered(
        document=compared_as_json(opened.base_path, compared),
        render=partial(render_compared, compared),
        exit_code=PROBLEMS_EXIT if compared.differing else 0,
    )


_NAMED = 20
"""How many keys with different answers are named on a terminal; JSON has more."""


def compared_as_json(base_path: str, compared: Comparison) -> dict[str, Any]:
    return {
        "base_path": base_path,
        "keys": compared.keys,
        "absent_keys": compared.absent,
        "equal": compared.equal,
        "differing": compared.differing,
        "indexes": [_answers_as_json(each, compared.keys) for each in (compared.first, compared.second)],
        "differences": [
            {"key": plain_key(each.key), "said": [places(each.first), places(each.second)], "rows": places(each.rows)}
            for each in compared.differences
        ],
        "notes": list(compared.notes),
    }


def _answers_as_json(each: Answers, keys: int) -> dict[str, Any]:
    return {
        "name": each.name,
        "keys_found": each.keys_found,
        "locations": each.locations,
        "false_locations": each.judged.false.num_rows,
        "missed": each.judged.missed.num_rows,
        "open_seconds": each.open_seconds,
        "seconds": each.seconds,
        "files_opened": each.files_opened,
        "bytes_read": each.bytes_read,
        "stored_bytes": each.stored_bytes,
        "cost": None if each.cost is None else asdict(each.cost),
        "hit_rate": each.keys_found / keys if keys else 0.0,
    }


def render_compared(compared: Comparison, console: Console) -> None:
    both = (compared.first, compared.second)
    table = new_table({"": Column.FIXED, both[0].name: Column.NUMBER, f"{both[1].name} ": Column.NUMBER})
    for label, amount in _LINES.items():
        table.add_row(label, *(amount(each, compared.keys) for each in both))
    console.print(table)
    for each in compared.differences[:_NAMED]:
        said = f"{both[0].name} says {describe_places(each.first)}, {both[1].name} says {describe_places(each.second)}"
        truth = f"its row is in {describe_places(each.rows)}" if each.rows else "no row of it was found"
        console.print(Text(shown(f"{plain_key(each.key)}: {said}; {truth}.")))
    if compared.differing > _NAMED:
        console.print(f"… and {compared.differing - _NAMED:,} more.")
    for note in compared.notes:
        console.print(Text(shown(f"Not judged: {note}")))
    console.print(
        f"{compared.keys:,} keys, {compared.absent:,} of them of no row: {compared.equal:,} answers are equal, "
        f"{compared.differing:,} differ."
    )


def _rate(each: Answers, keys: int) -> str:
    return f"{each.keys_found / keys:.2%}" if keys else ""


def _per_key(each: Answers, keys: int) -> str:
    return f"{each.seconds / keys * 1e6:,.1f} µs" if keys else ""


def _commit_bytes(each: Answers, keys: int) -> str:
    amount = None if each.cost is None else each.cost.commit_bytes
    return "" if amount is None else format_size(amount)


def _commit_entries(each: Answers, keys: int) -> str:
    amount = None if each.cost is None else each.cost.commit_entries
    return "" if amount is None else f"{amount:,}"


_LINES: Final[dict[str, Callable[[Answers, int], str]]] = {
    "keys found": lambda each, keys: f"{each.keys_found:,}",
    "hit rate": _rate,
    "locations": lambda each, keys: f"{each.locations:,}",
    "false locations": lambda each, keys: f"{each.judged.false.num_rows:,}",
    "missed rows": lambda each, keys: f"{each.judged.missed.num_rows:,}",
    "seconds to open": lambda each, keys: f"{each.open_seconds:.3f}",
    "seconds to look up": lambda each, keys: f"{each.seconds:.3f}",
    "time a key": _per_key,
    "files opened": lambda each, keys: f"{each.files_opened:,}",
    "bytes read": lambda each, keys: format_size(each.bytes_read),
    "stored for it alone": lambda each, keys: "" if each.stored_bytes is None else format_size(each.stored_bytes),
    "read to build it": lambda each, keys: "" if each.cost is None else format_size(each.cost.build_bytes),
    "written a commit": _commit_bytes,
    "entries a commit": _commit_entries,
}
