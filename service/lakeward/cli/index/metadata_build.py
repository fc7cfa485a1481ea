"""`lakeward index build TABLE --type metadata`: a partition of the metadata table is built.

Touches: stdout, stderr; the table, through `services/together/metadata_index`.
Keeps:   nothing is written without a statement about the table's other writers, nor with --dry-run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from lakeward.base.errors import UsageError
from lakeward.base.quantities import format_count, format_duration, format_size, parse_duration
from lakeward.cli.index.builds import BuildArguments, describe_state, index_engines, state_as_json
from lakeward.cli.options.lock import LockArguments
from lakeward.cli.options.values import parse_option
from lakeward.cli.result import Result
from lakeward.cli.serviced import compaction_options, serviced_table
from lakeward.index.build_state import metadata_build_folder
from lakeward.index.index_type import IndexType, LookupType
from lakeward.services.together.metadata_index.file_entries import BloomFilterEntries, ColumnStatsEntries
from lakeward.services.together.metadata_index.initial_build import PartitionEntries, build_partition, check_buildable
from lakeward.services.together.metadata_index.key_entries import KeyEntries
from lakeward.services.together.metadata_index.partition_entries import PartitionStatsEntries
from lakeward.services.together.metadata_index.record_entries import RecordEntries
from lakeward.services.together.metadata_index.secondary_entries import SecondaryEntries

if TYPE_CHECKING:
    from lakeward.cli.configured_table import ConfiguredTable
    from lakeward.protocol.serviced_table import ServicedTable
    from lakeward.table.snapshot import TableSnapshot


class MetadataKind(StrEnum):
    RECORD = "record"
    COLUMN_STATS = "column_stats"
    PARTITION_STATS = "partition_stats"
    BLOOM_FILTERS = "bloom_filters"
    SECONDARY = "secondary"


_SHOWN_SECONDS: Final = 5.0
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class MetadataArguments:
    """What a command line says of an index of the metadata table: a group of options."""

    kind: Annotated[
        MetadataKind | None, typer.Option(help="With --type metadata: the partition of the metadata table.")
    ] = None
    name: Annotated[
        str | None, typer.Option("--name", help="With --kind secondary: the name of the index, as in `CREATE INDEX`.")
    ] = None
    column: Annotated[
        str | None, typer.Option("--column", help="With --kind secondary: the column, of text or whole numbers.")
    ] = None
    yield_to_writers: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION", help="With --type metadata: how long to wait for a pause of the writers; default 1m."
        ),
    ] = None
    again: Annotated[
        bool,
        typer.Option(
            "--again",
            help="With --type metadata: also if a Hudi writer removed the index within an hour of its last build.",
        ),
    ] = False

    @property
    def is_said(self) -> bool:
        return self.again or any(
            each is not None for each in (self.kind, self.name, self.column, self.yield_to_writers)
        )


def build_in_metadata_table(
    opened: ConfiguredTable,
    of_metadata: MetadataArguments,
    given: BuildArguments,
    writers: LockArguments,
    *,
    dry_run: bool,
    replaces: bool = False,
) -> Result:
    """Build it, or say what would be read. Raises `UsageError`.

    Args:
        replaces: also in place of the one that is there.
    """
    kind = of_metadata.kind
    if kind is None:
        raise UsageError(
            "Say with --kind which index of the metadata table to build.",
            why="\n".join(f"  --kind {each}" for each in MetadataKind),
            remedy="`lakeward index list TABLE` shows what the table has already.",
        )
    secondary = _secondary(of_metadata)
    options = compaction_options(opened, writers.over(opened, dry_run=dry_run))
    seconds = parse_option(parse_duration, "--yield-to-writers", of_metadata.yield_to_writers, options.yielding.seconds)
    options = replace(options, yielding=replace(options.yielding, seconds=seconds))
    with (
        serviced_table(opened, options) as table,
        _work(opened, kind, secondary, given, table) as (
            entries,
            describe,
        ),
    ):
        document: dict[str, Any] = {
            "base_path": opened.base_path,
            "type": IndexType.METADATA.value,
            "kind": kind.value,
            "partition": entries.partition,
        }
        if not dry_run:
            built = build_partition(table, entries, again=of_metadata.again, replaces=replaces)
        elif check_buildable(table, entries.partition, again=of_metadata.again, replaces=replaces):
            built = None
        else:
            described, line = describe(opened.snapshot())
            return Result(document=document | {"dry_run": True} | described, lines=[line])
    if built is None:
        return Result(
            document=document | {"built": None, "dry_run": dry_run},
            lines=[f"The metadata table has the partition {entries.partition} already. Nothing to build."],
            is_nothing=True,
        )
    size, took = format_size(built.bytes), format_duration(built.seconds)
    return Result(
        document=document | {"built": asdict(built), "dry_run": False},
        lines=[
            f"Built {built.partition} in {took}: {format_count(built.entries, 'record')} in "
            f"{format_count(built.file_groups, 'file group')}, {size}.",
            f"Each Hudi writer must have {built.writers_option}=true from now on: one whose options have it "
            "off removes the index.",
        ],
    )


def only_of_metadata(index_type: LookupType) -> UsageError:
    """The error for these options beside an index of another type."""
    return UsageError(
        f"--kind, --name, --column, --yield-to-writers and --again do not go with --type {index_type}.",
        why="They are of an index of the metadata table.",
        remedy="Leave them out.",
    )


def _secondary(given: MetadataArguments) -> tuple[str, str] | None:
    """Name and column of a secondary index; None of another kind. Raises `UsageError`."""
    if given.kind is not MetadataKind.SECONDARY:
        if given.name is not None or given.column is not None:
            raise UsageError(
                f"--name and --column do not go with --kind {given.kind}.",
                why="They are of a secondary index.",
                remedy="Leave them out.",
            )
        return None
    if given.name is None or given.column is None or not _NAME.fullmatch(given.name):
        raise UsageError(
            "A secondary index has a name and a column.",
            why="Its name is of letters, digits and underscores.",
            remedy="Say both: --kind secondary --name by_city --column city.",
        )
    return given.name, given.column


Describe = Callable[["TableSnapshot"], tuple[dict[str, Any], str]]
"""What a build would read of a snapshot, for scripts and as a sentence."""


@contextmanager
def _work(
    opened: ConfiguredTable,
    kind: MetadataKind,
    secondary: tuple[str, str] | None,
    given: BuildArguments,
    table: ServicedTable,
) -> Iterator[tuple[PartitionEntries, Describe]]:
    """The entries of a kind, as this command line has them read. Raises `UsageError`."""
    shown_at = table.clock.monotonic()

    def on_step(what: str, done: int, of: int) -> None:
        nonlocal shown_at
        if table.clock.monotonic() - shown_at >= _SHOWN_SECONDS:
            shown_at = table.clock.monotonic()
            table.observer.step(what.format(f"{done:,}", f"{of:,}"))

    if kind in (MetadataKind.RECORD, MetadataKind.SECONDARY):
        folder = metadata_build_folder(opened.base_path, secondary)
        with (
            index_engines(opened, given.engine) as tasks,
            given.work(opened, IndexType.METADATA, folder, on_step, tasks) as work,
        ):
            keys: KeyEntries = RecordEntries(opened.storage, work)
            if secondary is not None:
                keys = SecondaryEntries(opened.storage, replace(work, column=secondary[1]), *secondary)
            rule = given.rule(opened)

            def describe(snapshot: TableSnapshot) -> tuple[dict[str, Any], str]:
                keys.check(snapshot)
                state = keys.state(snapshot)
                return state_as_json(state, rule), describe_state(state, rule)

            yield keys, describe
        return
    if given.is_said:
        raise UsageError(
            f"--kind {kind} is not built by tasks.",
            why="It is made of footers, or of records of the metadata table, in this process.",
            remedy="Leave the options out that say where tasks run, and how fast they read.",
        )
    unit = "partition" if kind is MetadataKind.PARTITION_STATS else "base file"
    units = _entries(opened, kind, table, lambda done, of: on_step(f"read {{}} of {{}} {unit}s", done, of))

    def describe_units(snapshot: TableSnapshot) -> tuple[dict[str, Any], str]:
        units.prepare(snapshot)
        number = len(units.units(snapshot))
        return {f"{unit.replace(' ', '_')}s": number}, f"Would read of {format_count(number, unit)} what it is made of."

    yield units, describe_units


def _entries(
    opened: ConfiguredTable, kind: MetadataKind, table: ServicedTable, on_unit: Callable[[int, int], None]
) -> BloomFilterEntries | ColumnStatsEntries | PartitionStatsEntries:
    storage, guard = opened.storage, table.guard
    if kind is MetadataKind.BLOOM_FILTERS:
        return BloomFilterEntries(storage, guard=guard, on_unit=on_unit)
    if kind is MetadataKind.COLUMN_STATS:
        return ColumnStatsEntries(storage, guard=guard, on_unit=on_unit)
    return PartitionStatsEntries(storage, table.clock, guard=guard, on_unit=on_unit)
