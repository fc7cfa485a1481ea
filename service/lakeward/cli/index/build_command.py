"""`lakeward index build TABLE` and `lakeward index update TABLE`: a Lakeward index is built and brought up to date; so
is the cache of filters that lookups in the bloom index use.

Touches: stdout, stderr; the table, reading only, but for the folder of the build; the folder or the database of the
         index.
Keeps:   nothing is written with --dry-run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

from lakeward.base.errors import UsageError
from lakeward.base.quantities import format_count
from lakeward.cli.configured_table import ZonedTable
from lakeward.cli.index.builds import BuildArguments, ByteRateOption, describe_state, index_engines, state_as_json
from lakeward.cli.index.filter_cache import build_cache, update_cache
from lakeward.cli.index.group import work_watched
from lakeward.cli.index.metadata_build import MetadataArguments, build_in_metadata_table, only_of_metadata
from lakeward.cli.index.own_index import DatabaseOption, RateOption, RecordShapeArguments, indexes_of
from lakeward.cli.options.engine import EngineArguments
from lakeward.cli.options.lock import LockArguments
from lakeward.cli.result import DryRunOption, Result
from lakeward.index.index_type import IndexType, LookupType, lookup_type
from lakeward.index.settlement import check_not_built
from lakeward.services.indexing.run.build_work import build_state
from lakeward.services.indexing.run.index_build import build_in_place, update_and_tidy

OwnTypeOption = Annotated[
    LookupType | None,
    typer.Option("--type", parser=lookup_type, metavar="<record|postgres|bloom>", help="Index type."),
]
BuiltTypeOption = Annotated[
    LookupType | None,
    typer.Option("--type", parser=lookup_type, metavar="<record|postgres|bloom|metadata>", help="Index type."),
]

_OWN = {
    IndexType.RECORD: "hash buckets of record keys below the table's .hoodie, or in the configured location",
    IndexType.POSTGRES: "record keys in a PostgreSQL database, that of the store or --url",
    IndexType.BLOOM: "a cache of the filters and ranges in base files, by which lookups open fewer files",
}
"""What Lakeward keeps up to date, for people."""
_CAN_BE_BUILT = _OWN | {
    IndexType.METADATA: "a partition of the metadata table, which writers keep current; --kind says which"
}


def build(
    *,
    opened: ZonedTable,
    index_type: BuiltTypeOption = None,
    by_partition: Annotated[
        bool, typer.Option("--by-partition", help="Keys are unique in a partition, not in the whole table.")
    ] = False,
    with_logs: Annotated[
        bool,
        typer.Option(
            "--with-logs",
            help="With --type bloom: cache the keys of logs too, which reads all of them; later updates do the same.",
        ),
    ] = False,
    shape: RecordShapeArguments,
    engine: EngineArguments,
    bytes_per_second: ByteRateOption = None,
    keys_per_second: RateOption = None,
    dry_run: DryRunOption = False,
    url: DatabaseOption = None,
    of_metadata: MetadataArguments,
    writers: LockArguments,
) -> Result:
    """Build an index of a table from its rows. For an index of Lakeward's own the table's rows and timeline are read
    only, and no lock is taken.

    An index of type record is below the table's .hoodie, or in the configured location; one of type postgres is in the
    database of the store. The keys of each file group are read by a task of their own, and kept until the index is
    there: stopped midway, it goes on with what is missing when it is run again. What was committed meanwhile is taken
    in at the end.

    With --type bloom the filters and ranges in the footers of base files are gathered below the table's .hoodie, so
    that lookups open no footers. That is a cache: what it lacks is read from the footers.

    With --type metadata one of Hudi's own indexes is built, a partition of the table's metadata table, on a table that
    has a metadata table without it: --kind says which. Writers that share the lock go on meanwhile; it is published in
    a moment in which no write is pending. From then on each Hudi writer keeps it up to date whose options have it on,
    and one whose options have it off removes it. So set for all of them first hoodie.metadata.record.index.enable=true
    for --kind record, hoodie.metadata.index.column.stats.enable=true for column_stats and partition_stats,
    hoodie.metadata.index.bloom.filter.enable=true for bloom_filters. A secondary index (--name, --column) is built
    after the record index, and writers that keep that one keep it, too. An index that a writer removed within an hour
    of its build is not built again without --again.
    """
    index_type = _said(index_type, "build", _CAN_BE_BUILT)
    if index_type is IndexType.METADATA:
        if by_partition or with_logs:
            raise UsageError(
                "--by-partition and --with-logs do not go with --type metadata.",
                why="The record index of the metadata table is over the whole table, and has the keys of logs.",
                remedy="Leave them out.",
            )
        given = BuildArguments(engine, bytes_per_second)
        return build_in_metadata_table(opened, of_metadata, given, writers, dry_run=dry_run)
    if of_metadata.is_said:
        raise only_of_metadata(index_type)
    given_shape = shape.over(index_type)
    given = BuildArguments(engine, bytes_per_second)
    take = opened.snapshot
    if index_type is IndexType.BLOOM:
        if by_partition or dry_run or given.is_said:
            raise UsageError(
                "The filter cache takes no scope and no options of tasks.",
                why="It holds the footers of base files, and is read in this process.",
                remedy="Leave --by-partition, --dry-run and the options of tasks out.",
            )
        return build_cache(opened, take(), with_logs=with_logs)
    if with_logs:
        raise UsageError(
            f"The {index_type} index has the keys of logs anyway.",
            remedy="Leave --with-logs out, or name --type bloom.",
        )
    with (
        index_engines(opened, engine) as tasks,
        indexes_of(opened, url, spread=tasks.buckets).place(
            index_type, keys_per_second=keys_per_second, shape=given_shape
        ) as place,
        work_watched() as on_step,
    ):
        snapshot = take()
        if place.is_there():
            check_not_built(place.open(snapshot).indexed())
        state = build_state(opened.storage, snapshot, place.build_folder)
        if dry_run:
            rule = given.rule(opened)
            document = {"base_path": opened.base_path, "type": index_type.value, "dry_run": True}
            return Result(document=document | state_as_json(state, rule), lines=[describe_state(state, rule)])
        with given.work(opened, index_type, place.build_folder, on_step, tasks) as work:
            built = build_in_place(opened.storage, place, take, work, is_global=not by_partition)
        updated = update_and_tidy(opened.storage, place.open, take)
    return Result(
        document={
            "base_path": opened.base_path,
            "type": index_type.value,
            "instant": built.instant,
            "file_groups": built.groups,
            "file_groups_resumed": built.resumed,
            "entries": built.entries,
            "commits": list(updated.commits),
        },
        lines=[f"Built from {built.entries:,} keys in {built.groups:,} file groups. {_commits_line(updated.commits)}"],
    )


def update(
    *,
    opened: ZonedTable,
    index_type: OwnTypeOption = None,
    engine: EngineArguments,
    keys_per_second: RateOption = None,
    url: DatabaseOption = None,
) -> Result:
    """Take in what was committed since, in the order in which it completed. The table is read only; no lock is taken.

    Until then a lookup reads what these commits wrote, up to 256 MiB. Stopped midway, it goes on where it was. Files of
    many buckets of a record index are written and merged by tasks. In a file system the few keys that a commit changed
    in a bucket are appended to a log of the bucket; in an object store they are a file, as many keys are.

    The cache of --type bloom gets the base files that came, and loses those that are gone.
    """
    index_type = _said(index_type, "update", _OWN)
    if index_type is IndexType.BLOOM:
        return update_cache(opened, opened.snapshot())
    with (
        index_engines(opened, engine) as tasks,
        indexes_of(opened, url, spread=tasks.buckets).writer(index_type, keys_per_second=keys_per_second) as opens,
    ):
        updated = update_and_tidy(opened.storage, opens, opened.snapshot)
    document = {"base_path": opened.base_path, "type": index_type.value, "commits": list(updated.commits)}
    return Result(document=document | {"read_again": updated.read_again}, lines=[_commits_line(updated.commits)])


def _said(index_type: LookupType | None, verb: str, types: Mapping[IndexType, str]) -> LookupType:
    """Raises `UsageError` that says which types there are."""
    if index_type is not None:
        return index_type
    raise UsageError(
        f"Say with --type which index to {verb}.",
        why="\n".join(f"  --type {kind:<10}{what}" for kind, what in types.items()),
        remedy="`lakeward index list TABLE` shows what the table has already.",
    )


def _commits_line(commits: tuple[str, ...]) -> str:
    return f"{format_count(len(commits), 'commit')} taken in."
