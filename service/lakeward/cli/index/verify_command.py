"""`lakeward index verify TABLE`: check an index. Exit 6 if it is wrong, and it is taken out of use.

Touches: stdout, stderr; the table, reading only, but for the file that says that an index, or the cache of filters, is
         out of use.
Keeps:   an index is put back in use only by a check that left nothing unlooked at.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from lakeward.base.named_key import plain_key
from lakeward.base.quantities import format_share
from lakeward.cli.configured_table import ZonedTable
from lakeward.cli.index.group import TypeOption, WithLogsOption, work_watched
from lakeward.cli.index.own_index import DatabaseOption, indexes_of
from lakeward.cli.result import PROBLEMS_EXIT, Result, shown
from lakeward.cli.terminal import Rendered, Terminal
from lakeward.index.index_of_type import type_of_choice
from lakeward.index.index_type import IndexType, LookupType
from lakeward.services.indexing.judge.check import Moment, check_index
from lakeward.services.indexing.judge.check_result import CheckSize, Drawn, IndexCheck
from lakeward.services.indexing.judge.filter_cache_check import FilterCacheCheck, check_filter_cache
from lakeward.services.indexing.table_indexes import TableIndexes

if TYPE_CHECKING:
    from lakeward.services.indexing.judge.check_result import IndexCheck


def verify(
    opened: ZonedTable,
    index_type: TypeOption = None,
    error_rate: Annotated[
        float,
        typer.Option(
            min=1e-9, max=0.5, metavar="SHARE", help="Smallest share of wrong rows or entries that the check must find."
        ),
    ] = 0.001,
    confidence: Annotated[
        float, typer.Option(min=0.5, max=0.999999, metavar="SHARE", help="Confidence with which it finds that share.")
    ] = 0.99,
    everything: Annotated[
        bool, typer.Option("--all", help="Check every row and every entry instead of a sample.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the sample.")] = 0,
    report_only: Annotated[
        bool,
        typer.Option(
            "--report-only", help="Only report: do not take a wrong index out of use, nor put a right one back."
        ),
    ] = False,
    with_logs: WithLogsOption = False,
    url: DatabaseOption = None,
) -> Result:
    """Look rows up in an index, and its entries up among the rows; exit 6, and out of use, if the index is wrong.

    The sample is large enough to find a share of --error-rate with --confidence: by default 4,603 rows and as many
    entries, for tables of any size.

    A record index of the metadata table, or an index of Lakeward's own, that is wrong is taken out of use: Lakeward's
    lookups and writes do not use it. Hudi's writers still do. It is in use again once it was rebuilt or removed
    (`lakeward index rebuild`), or once --all found nothing. No lock is taken.

    With --type bloom the cache of filters is compared with the footers too; a wrong one is out of use until it is
    rebuilt (`lakeward index rebuild`), and footers are read instead.
    """
    indexes = indexes_of(opened, url)
    chosen = index_type or type_of_choice(opened.snapshot())

    size = CheckSize(error_rate, confidence, seed, everything)
    with (
        indexes.reader(chosen, is_judged=True, with_logs=with_logs) as opens,
        work_watched() as on_step,
    ):

        def moment_now() -> Moment:
            snapshot = opened.snapshot()
            return Moment(snapshot, opens(snapshot))

        found = check_index(opened.storage, moment_now, size, on_step=on_step)
        cache = None
        if chosen is IndexType.BLOOM:
            cache = check_filter_cache(opened.storage, opened.snapshot(), size, on_step=on_step)
    put = "" if report_only else _put(indexes, chosen, found, cache)

    def render(console: Terminal) -> None:
        render_checked(chosen, found, console)
        if cache is not None:
            render_cache_checked(cache, console)
        if put:
            what = "cache of filters" if chosen is IndexType.BLOOM else f"{chosen} index"
            console.print(f"The {what} is {put} from now on.", highlight=False)

    document = checked_as_json(opened.base_path, chosen, size, found) | {"changed": put}
    return Rendered(
        document=document if cache is None else document | {"cache": asdict(cache)},
        render=render,
        exit_code=PROBLEMS_EXIT if found.wrong or (cache is not None and cache.wrong) else 0,
    )


def _put(indexes: TableIndexes, kind: LookupType, found: IndexCheck, cache: FilterCacheCheck | None) -> str:
    wrong = found.summary if found.wrong else ""
    if kind is IndexType.METADATA or kind.is_own:
        return indexes.put_by_check(kind, wrong=wrong, is_complete=found.is_complete)
    if cache is None:
        return ""
    wrong = cache.summary if cache.wrong else wrong
    return indexes.put_by_check(kind, wrong=wrong, is_complete=cache.is_complete and found.is_complete)


_NAMED = 20
"""How many faults are named on a terminal; JSON has more."""


def checked_as_json(base_path: str, kind: LookupType, size: CheckSize, found: IndexCheck) -> dict[str, Any]:
    return {
        "base_path": base_path,
        "type": kind.value,
        "ok": not found.wrong,
        "error_rate": size.error_rate,
        "confidence": size.confidence,
        "seed": size.seed,
        "complete": found.is_complete,
        "rows": asdict(found.rows),
        "entries": None if found.entries is None else asdict(found.entries),
        "faults": [
            {
                "kind": fault.kind.value,
                "key": plain_key(fault.key),
                "partition_path": fault.partition_path,
                "file_id": fault.file_id,
                "said": [{"partition_path": path, "file_id": file_id} for path, file_id in fault.said],
            }
            for fault in found.faults
        ],
        "notes": list(found.notes),
    }


def render_checked(kind: LookupType, found: IndexCheck, console: Console) -> None:
    console.print(_line("rows were looked up in the index", found.rows, found.confidence))
    if found.entries is None:
        console.print("The index has no entries of its own: its answers are read from the files.")
    else:
        console.print(_line("entries were looked for among the rows", found.entries, found.confidence))
    for fault in found.faults[:_NAMED]:
        console.print(Text(shown(f"{plain_key(fault.key)}: {fault.what}.")))
    if len(found.faults) > _NAMED:
        console.print(f"… and {len(found.faults) - _NAMED:,} more, which --json names.")
    for note in found.notes:
        console.print(Text(shown(f"Not checked: {note}")))
    console.print(f"The {kind} index is {'WRONG' if found.wrong else 'right in everything that was checked'}.")


def render_cache_checked(found: FilterCacheCheck, console: Console) -> None:
    console.print(
        f"{found.checked:,} of {found.of:,} entries of the cache of filters were compared with their files, "
        f"{len(found.wrong):,} of them wrong."
    )
    for wrong in found.wrong[:_NAMED]:
        console.print(Text(shown(f"{wrong.path}: {wrong.what}.")))
    for sentence in found.broken:
        console.print(Text(shown(f"Passed over by lookups: {sentence}")))


def _line(what: str, drawn: Drawn, confidence: float) -> str:
    head = f"{drawn.checked:,} of {drawn.of:,} {what}, {drawn.wrong:,} of them wrong"
    if drawn.wrong or drawn.excluded_rate is None:
        return f"{head}."
    if not drawn.excluded_rate:
        return f"{head}: none is."
    return f"{head}: fewer than {format_share(drawn.excluded_rate)} are, with a confidence of {confidence:.4g}."
