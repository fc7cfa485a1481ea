"""`lakeward read TABLE`: the rows of a table, on the terminal or in a file.

    --diff     two tables, or moments, compared   `cli/read/diff_report`
    --changes  what commits changed               `cli/read/row_result`
    else       rows: now, as of a moment, or of the commits of a window

Touches: stdout and stderr, or the file of --output; the table, reading only.
Keeps:   rows that are missing are reported, and the exit code is that of damage.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lakeward.base.clock import SystemClock
from lakeward.base.quantities import format_count
from lakeward.cli.configured_table import ConfiguredTable, ZonedTable, open_table
from lakeward.cli.progress import reading_view
from lakeward.cli.read.diff_report import diff_result
from lakeward.cli.read.read_notes import row_notes
from lakeward.cli.read.read_options import PrintArguments, RowArguments, SourceArguments, check_options
from lakeward.cli.read.row_output import OutputFormat
from lakeward.cli.read.row_result import Said, leaves_terminal, printed, rows_to_read
from lakeward.cli.result import Result, Show
from lakeward.index.record.record_options import RecordOptions
from lakeward.protocol.progress import OnStep
from lakeward.scan.change_scan import ChangeQuery, ChangeScan
from lakeward.scan.commit_window import check_options as check_window
from lakeward.scan.commit_window import read_window
from lakeward.scan.filter_text import parse_filter
from lakeward.scan.past_snapshot import read_as_of
from lakeward.scan.scan_plan import TableQuery, known_schema
from lakeward.scan.table_diff import SAMPLES, DiffQuery, DiffSide, diff_tables
from lakeward.scan.table_scan import FIRST_FILES, FIRST_ROWS_MAX, TableScan

if TYPE_CHECKING:
    from lakeward.scan.key_lookup import KeyLookup
    from lakeward.table.snapshot import TableSnapshot


def read(
    *, opened: ZonedTable, show: Show, rows: RowArguments, source: SourceArguments, printing: PrintArguments
) -> Result:
    """Read the rows of a table, as a query by Hudi finds them. Reads only; takes no lock."""
    check_options(rows, source, printing)
    with reading_view(SystemClock(), is_shown=leaves_terminal(printing)) as on_step:
        if source.diff is not None:
            return _compared(opened, source.diff, rows, source, on_step)
        if source.changes:
            return _changed(opened, show, rows, source, printing, on_step)
        return _read(opened, show, rows, source, printing, on_step)


def _read(
    opened: ConfiguredTable,
    show: Show,
    rows: RowArguments,
    source: SourceArguments,
    printing: PrintArguments,
    on_step: OnStep,
) -> Result:
    columns, wanted = rows.names, printing.wanted
    on_step("listing the table")
    limit = rows_to_read(rows.limit, wanted, printing)
    of_first = limit is not None and limit <= FIRST_ROWS_MAX and not _asks_more(rows, source, printing)
    snapshot, commits = _snapshot(opened, source.as_of, files_enough=FIRST_FILES if of_first else None), None
    if source.since is not None:
        check_window(as_of=source.as_of is not None, read_optimized=source.read_optimized)
        snapshot, commits = read_window(opened.storage, snapshot, source.since, source.until, clock=SystemClock())
    query = TableQuery(
        columns=columns,
        where=None if rows.where is None else parse_filter(rows.where, known_schema(snapshot)),
        kind=source.kind,
        has_meta_columns=rows.meta_columns or commits is not None,
        commits=commits,
        keys=rows.wanted_keys(snapshot.config.record_key_fields),
        limit=limit,
    )
    scan = TableScan(
        opened.storage,
        snapshot,
        query,
        skips_damaged=source.skip_damaged,
        lookup=partial(_lookup, opened, snapshot),
        whole=opened.snapshot,
        on_step=on_step,
    )

    def said() -> Said:
        keys = {} if query.keys is None else {"missing_keys": scan.missing_keys}
        end = {} if commits is None else {"end": commits.end}
        return Said(keys | end, row_notes(scan, explain=printing.explain), scan.damage)

    is_cut = rows.limit is None and wanted is OutputFormat.TABLE
    return printed(scan, printing, show, said, is_cut=is_cut, count_rest=scan.count_cheaply)


def _changed(
    opened: ConfiguredTable,
    show: Show,
    rows: RowArguments,
    source: SourceArguments,
    printing: PrintArguments,
    on_step: OnStep,
) -> Result:
    query = ChangeQuery(
        since=source.since,
        until=source.until,
        columns=rows.names,
        where=rows.where,
        limit=rows_to_read(rows.limit, printing.wanted, printing),
    )
    on_step("listing the table")
    scan = ChangeScan(
        opened.storage,
        opened.snapshot(),
        query,
        SystemClock(),
        skips_damaged=source.skip_damaged,
        on_step=on_step,
    )

    def said() -> Said:
        go_on = [] if scan.end is None else [f"{format_count(scan.commits, 'commit')}; go on with --since {scan.end}"]
        return Said({"end": scan.end}, go_on, scan.damage)

    is_cut = rows.limit is None and printing.wanted is OutputFormat.TABLE
    return printed(scan, printing, show, said, is_cut=is_cut, count_rest=lambda: None)


def _compared(
    opened: ConfiguredTable, diff: str, rows: RowArguments, source: SourceArguments, on_step: OnStep
) -> Result:
    query = DiffQuery(
        columns=rows.names,
        where=rows.where,
        kind=source.kind,
        has_meta_columns=rows.meta_columns,
        samples=SAMPLES if rows.limit is None else rows.limit,
    )
    other = open_table(diff, opened.config, timezone=opened.timezone)
    on_step("listing the tables")
    before, after = (
        DiffSide(table.storage, _snapshot(table, moment))
        for table, moment in ((opened, source.as_of), (other, source.diff_as_of))
    )
    return diff_result(opened.base_path, other.base_path, diff_tables(before, after, query, on_step=on_step))


def _asks_more(rows: RowArguments, source: SourceArguments, printing: PrintArguments) -> bool:
    """Whether more is asked for than the first rows that there are."""
    chosen = (rows.where, rows.keys, rows.keys_from, source.as_of, source.since)
    return printing.count or source.skip_damaged or any(each is not None for each in chosen)


def _snapshot(opened: ConfiguredTable, as_of: str | None, *, files_enough: int | None = None) -> TableSnapshot:
    snapshot = opened.snapshot(files_enough=files_enough)
    return snapshot if as_of is None else read_as_of(opened.storage, snapshot, as_of, clock=SystemClock())


def _lookup(opened: ConfiguredTable, snapshot: TableSnapshot) -> KeyLookup:
    # Imported here: most reads ask no index, and loading them takes longer than a small read.
    from lakeward.scan.key_lookup import KeyLookup

    record = RecordOptions(opened.table.record_index_location)
    return KeyLookup(opened.storage, snapshot, clock=SystemClock(), record=record)
