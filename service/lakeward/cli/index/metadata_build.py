"""`lakeward index build TABLE --type metadata`: a partition of the metadata table is built.

Touches: stdout, stderr; the table, through `services/together/metadata_index`.
Keeps:   nothing is written without a statement about the table's other writers, nor with --dry-run.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeward.base.errors import UsageError
from lakeward.base.quantities import format_count, format_duration, format_size, parse_duration
from lakeward.cli.index.builds import BuildArguments, describe_state, state_as_json
from lakeward.cli.options.lock import LockArguments
from lakeward.cli.options.values import parse_option
from lakeward.cli.result import Result
from lakeward.cli.serviced import compaction_options, serviced_table
from lakeward.index.build_state import metadata_build_folder
from lakeward.index.index_type import IndexType
from lakeward.services.together.metadata_index.initial_build import build_partition, check_buildable
from lakeward.services.together.metadata_index.record_entries import RecordEntries

if TYPE_CHECKING:
    from lakeward.cli.configured_table import ConfiguredTable


class MetadataKind(StrEnum):
    RECORD = "record"


@dataclass(frozen=True, slots=True)
class MetadataArguments:
    """What a command line says of an index of the metadata table: a group of options."""

    kind: Annotated[
        MetadataKind | None, typer.Option(help="With --type metadata: the partition of the metadata table.")
    ] = None
    yield_to_writers: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION", help="With --type metadata: how long to wait for a pause of the writers; default 1m."
        ),
    ] = None

    @property
    def is_said(self) -> bool:
        return self.kind is not None or self.yield_to_writers is not None


def build_in_metadata_table(
    opened: ConfiguredTable,
    of_metadata: MetadataArguments,
    given: BuildArguments,
    writers: LockArguments,
    *,
    dry_run: bool,
) -> Result:
    """Build it, or say what would be read. Raises `UsageError`."""
    kind = of_metadata.kind
    if kind is None:
        raise UsageError(
            "Say with --kind which index of the metadata table to build.",
            why="\n".join(f"  --kind {each}" for each in MetadataKind),
            remedy="`lakeward index list TABLE` shows what the table has already.",
        )
    options = compaction_options(opened, writers.over(opened, dry_run=dry_run))
    seconds = parse_option(parse_duration, "--yield-to-writers", of_metadata.yield_to_writers, options.yielding.seconds)
    options = replace(options, yielding=replace(options.yielding, seconds=seconds))
    folder = metadata_build_folder(opened.base_path)
    document: dict[str, Any] = {
        "base_path": opened.base_path,
        "type": IndexType.METADATA.value,
        "kind": kind.value,
        "partition": RecordEntries.partition,
    }
    with serviced_table(opened, options) as table:

        def on_step(what: str, done: int, of: int) -> None:
            table.observer.step(what.format(f"{done:,}", f"{of:,}"))

        with given.work(opened, IndexType.METADATA, folder, on_step) as work:
            entries = RecordEntries(opened.storage, work)
            built = None
            if not dry_run:
                built = build_partition(table, entries)
            elif not check_buildable(table, entries.partition):
                state, rule = entries.state(opened.snapshot()), given.rule(opened)
                return Result(
                    document=document | {"dry_run": True} | state_as_json(state, rule),
                    lines=[describe_state(state, rule)],
                )
    if built is None:
        return Result(
            document=document | {"built": None, "dry_run": dry_run},
            lines=[f"The metadata table has the partition {RecordEntries.partition} already. Nothing to build."],
            is_nothing=True,
        )
    size, took = format_size(built.bytes), format_duration(built.seconds)
    return Result(
        document=document | {"built": asdict(built), "dry_run": False},
        lines=[
            f"Built {built.partition} from {format_count(built.entries, 'key')} in {took}: "
            f"{format_count(built.file_groups, 'file group')}, {size}.",
            "Each Hudi writer must have hoodie.metadata.record.index.enable=true from now on: one whose options have "
            "it off removes the index.",
        ],
    )
