"""`lakeward write TABLE --input FILES`: write rows into a table, as one commit.

Touches: stdin where it is the input; stdout, stderr; the table, through `write/whole_write.py`.
Keeps:   1. nothing is written without a statement about the table's other writers, nor with --dry-run;
         2. rows that the table cannot take are refused before anything is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeward.base.errors import UsageError
from lakeward.base.quantities import format_count, format_instant, format_size, parse_memory, parse_size
from lakeward.cli.configured_table import ConfiguredTable, ZonedTable
from lakeward.cli.index.own_index import indexes_of
from lakeward.cli.options.bloom_filter import BloomFilterArguments, bounded_filters
from lakeward.cli.options.engine import EngineArguments
from lakeward.cli.options.lock import LockArguments
from lakeward.cli.options.store import AWAY
from lakeward.cli.options.table_creation import column_names
from lakeward.cli.options.values import parse_option, parse_pairs
from lakeward.cli.result import DryRunOption, Result
from lakeward.cli.serviced import serviced_table
from lakeward.index.index_type import OWN_TYPES, IndexType, LookupType
from lakeward.index.out_of_use import check_in_use
from lakeward.index.tee import read_tee
from lakeward.services.indexing.settings import record_options_of
from lakeward.write.flow.choice import open_flow
from lakeward.write.index_choice import choose_index
from lakeward.write.request import CONFLICT_RETRIES, FileSizes, WriteOperation, WriteRequest
from lakeward.write.target import Assignment, HandleKind, rows_of_targets
from lakeward.write.whole_write import WriteReport, preview_rows, write_rows
from lakeward.write.write_start import timeline_snapshot

if TYPE_CHECKING:
    from lakeward.write.tagging.tagging_choice import OpenIndex


def write(
    *,
    opened: ZonedTable,
    rows: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            metavar="FILE",
            help="Rows to write: Parquet, CSV or JSON lines; - for JSON lines from standard input. Repeatable.",
        ),
    ] = None,
    operation: Annotated[
        WriteOperation, typer.Option(help="Write operation: upsert, insert, bulk_insert, delete, …")
    ] = WriteOperation.UPSERT,
    index: Annotated[
        IndexType | None,
        typer.Option(
            help="Index type; default bucket with --buckets, else what `lakeward index tee` chose, else metadata "
            "if the metadata table has a record index, else simple."
        ),
    ] = None,
    index_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="The database of the index postgres; not given: the store of the configuration."
        ),
    ] = None,
    buckets: Annotated[
        int | None,
        typer.Option(min=1, help="Number of buckets per partition: the same for every writer of the table."),
    ] = None,
    bucket_fields: Annotated[
        str, typer.Option(metavar="COLUMNS", help="The key columns that are hashed; all of them by default.")
    ] = "",
    update_partition_path: Annotated[
        bool | None,
        typer.Option(
            "--update-partition-path/--no-update-partition-path",
            help="With a global index: whether a row moves to its new partition or stays where its key is; default "
            "what the table says, else it stays with record and moves with others.",
            show_default=False,
        ),
    ] = None,
    partition: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH", help="A partition that delete_partition takes. Repeatable."),
    ] = None,
    deduplicate: Annotated[
        bool | None,
        typer.Option(
            "--deduplicate/--keep-duplicates",
            help="Fold rows of one key into one, by the table's merge mode; default for upsert and delete, and in "
            "buckets.",
            show_default=False,
        ),
    ] = None,
    fill_missing: Annotated[
        bool, typer.Option("--fill-missing", help="Columns of the table that the rows lack become null.")
    ] = False,
    commit_metadata: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="Extra metadata of the commit. Repeatable.")
    ] = None,
    retries: Annotated[
        int, typer.Option(min=0, help="How many times to retry if another writer wrote to the same file group.")
    ] = CONFLICT_RETRIES,
    max_file_size: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Target size of a base file; default 120MiB.")
    ] = None,
    small_file_size: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Base files smaller than this take new rows, 0 for none; with `lakeward index inserts --into-logs` "
            "their logs count too. Default 100MiB.",
        ),
    ] = None,
    verify: Annotated[
        bool | None,
        typer.Option(
            "--verify/--no-verify",
            help="Read every new file back before it is published; default --verify.",
            show_default=False,
        ),
    ] = None,
    memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Peak memory of one task, from 300MiB; default 512MiB.")
    ] = None,
    given_filter: BloomFilterArguments,
    engine: EngineArguments,
    given: LockArguments,
    dry_run: DryRunOption = False,
) -> Result:
    """Write rows into a table, as one commit that Hudi's readers and writers can continue from.

    The table says what its keys, partitions and merge mode are; rows are sorted by key, so that later merges need not.
    """
    takes_rows = operation is not WriteOperation.DELETE_PARTITION
    if takes_rows != bool(rows):
        raise UsageError(
            f"{operation} takes {'rows: there is no --input' if takes_rows else 'partitions and no rows'}.",
            remedy="Name files with --input, or - for standard input." if takes_rows else "Leave --input out.",
        )
    locks = given.over(opened, dry_run=dry_run)
    with serviced_table(opened, locks) as serviced:
        memory_bytes = parse_option(parse_memory, "--memory", memory, serviced.options.memory_bytes)
        options = serviced.options
        options = replace(
            options,
            memory_bytes=memory_bytes,
            verify=options.verify if verify is None else verify,
            bloom_bytes_max=given_filter.over(options.bloom_bytes_max),
        )
        serviced = replace(serviced, options=options)
        snapshot = timeline_snapshot(serviced)
        tee = read_tee(opened.storage, opened.base_path)
        chosen = choose_index(
            snapshot.config,
            index,
            buckets,
            column_names(bucket_fields),
            update_partition_path,
            primary=tee.primary,
        )
        if index_url is not None and chosen.type is not IndexType.POSTGRES and tee.shadow is not IndexType.POSTGRES:
            raise UsageError(
                "--index-url goes with the index postgres alone.", remedy="Leave it out, or name that index."
            )
        sizes = FileSizes()
        request = WriteRequest(
            operation=operation,
            index=chosen.type,
            buckets=chosen.buckets,
            bucket_fields=chosen.bucket_fields,
            moves_rows=chosen.moves_rows,
            deduplicate=deduplicate,
            partitions=tuple(partition or ()),
            sizes=replace(
                sizes,
                max_file=parse_option(parse_size, "--max-file-size", max_file_size, sizes.max_file),
                small_file=parse_option(parse_size, "--small-file-size", small_file_size, sizes.small_file),
            ),
            fill_missing=fill_missing,
            extra_metadata=parse_pairs(commit_metadata, like="--commit-metadata source=orders"),
            conflict_retries=retries,
        )
        with (
            engine.over(opened.settings, memory_bytes=memory_bytes) as engines,
            _index_of(opened, request, index_url) as open_index,
            _shadow_of(opened, tee.shadow, index_url) as shadow,
            open_flow(
                serviced, request, snapshot, rows or (), engines.rule, partial(engines.spark, moves_rows=True)
            ) as (flow, columns),
        ):
            if dry_run:
                assignment = preview_rows(serviced, request, flow, columns, open_index)
            else:
                report = write_rows(serviced, request, flow, columns, open_index, shadow)
    if dry_run:
        return Result(document=assigned_as_json(assignment), lines=list(_assigned_lines(assignment)))
    return Result(document=written_as_json(report), lines=list(_written_lines(report)))


@contextmanager
def _index_of(opened: ConfiguredTable, request: WriteRequest, url: str | None) -> Iterator[OpenIndex | None]:
    """Lakeward's own index that the request names. Raises `Refused` where it is out of use."""
    kind = next((own for own in OWN_TYPES if own is request.index), None)
    if kind is None:
        yield None
        return
    check_in_use(opened.storage, opened.base_path, kind, record_options_of(opened.table))
    with indexes_of(opened, url).writer(kind) as opens:
        yield opens


@contextmanager
def _shadow_of(opened: ConfiguredTable, shadow: LookupType | None, url: str | None) -> Iterator[OpenIndex | None]:
    """Lakeward's own index that is compared with the primary index. If it does not answer it is behind by this write,
    which lookups in it cover.
    """
    if shadow is None or not shadow.is_own:
        yield None
        return
    with ExitStack() as held:
        open_shadow: OpenIndex | None = None
        try:
            open_shadow = held.enter_context(indexes_of(opened, url).writer(shadow))
        except AWAY as error:
            typer.echo(f"The shadow index {shadow} does not answer, and misses this write: {error}", err=True)
        yield open_shadow


def _written_lines(report: WriteReport) -> Iterator[str]:
    done = [
        f"{number:,} {what}"
        for number, what in (
            (report.inserted, "inserted"),
            (report.updated, "updated"),
            (report.deleted, "deleted"),
        )
        if number
    ]
    groups = sum(len(file_ids) for file_ids in report.replaced.values())
    if groups:
        done.append(f"{format_count(groups, 'file group')} replaced")
    yield (
        f"{report.operation} {report.instant} complete at {format_instant(report.completion_time)}: "
        f"{', '.join(done) or 'no rows'}; {format_count(report.files, 'file')} of {format_size(report.size_bytes)} "
        f"in {format_count(len(report.partitions), 'partition')}."
    )
    if report.bloom_error_rates:
        yield (bounded_filters(report.bloom_error_rates))
    if report.tries > 1:
        yield (f"It conflicted with other writers and tried {report.tries} times.")


def written_as_json(report: WriteReport) -> dict[str, Any]:
    return {
        "operation": str(report.operation),
        "instant": report.instant,
        "completion_time": report.completion_time,
        "inserted": report.inserted,
        "updated": report.updated,
        "deleted": report.deleted,
        "files": report.files,
        "bytes": report.size_bytes,
        "partitions": list(report.partitions),
        "replaced": {path: list(file_ids) for path, file_ids in sorted(report.replaced.items())},
        "tries": report.tries,
        "bloom_error_rates": list(report.bloom_error_rates),
    }


def _assigned_lines(assignment: Assignment) -> Iterator[str]:
    """What a write would do."""
    rows = rows_of_targets(assignment.places)
    if not assignment.targets and not assignment.replaced:
        yield ("Would write nothing.")
    for target in assignment.targets:
        where = f"partition '{target.partition_path}'" if target.partition_path else "the table"
        yield (f"Would {_DOES[target.kind]} {target.file_id} in {where}: {format_count(rows[target.index], 'row')}")
    for path, file_ids in sorted(assignment.replaced.items()):
        yield (f"Would replace {format_count(len(file_ids), 'file group')} in partition '{path}'")


_DOES = {HandleKind.CREATE: "begin", HandleKind.MERGE: "rewrite", HandleKind.APPEND: "append to"}


def assigned_as_json(assignment: Assignment) -> dict[str, Any]:
    rows = rows_of_targets(assignment.places)
    return {
        "dry_run": True,
        "file_groups": [
            {
                "partition": each.partition_path,
                "file_id": each.file_id,
                "kind": str(each.kind),
                "rows": rows[each.index],
            }
            for each in assignment.targets
        ],
        "replaced": {path: list(file_ids) for path, file_ids in sorted(assignment.replaced.items())},
    }
