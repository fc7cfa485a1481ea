"""Options that say where an index of Lakeward's own is and what it is made like, and the table's indexes by them.

Touches: the database of an index, which it opens and closes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

import pyarrow as pa
import typer

from lakeward.base.clock import SystemClock
from lakeward.base.did_you_mean import did_you_mean
from lakeward.base.errors import UsageError
from lakeward.cli.options.store import AWAY, store_url
from lakeward.cli.options.user import user_name
from lakeward.index.external.rate_limit import RateLimit
from lakeward.index.hbase.hbase_entries import HBaseEntries
from lakeward.index.hbase.hbase_index import HBaseSource, PassedOver
from lakeward.index.hbase.place import SCHEME, HBasePlace, parse_place
from lakeward.index.index_type import INDEX_NAME, IndexType, LookupType
from lakeward.index.location import RECORD_KEY
from lakeward.index.record.created_with import DEFAULT_HASH, OWN_PREFIX, SECOND_HASH
from lakeward.index.record.index_growth import ScalingWay
from lakeward.index.record.own_hash import fingerprinted
from lakeward.services.indexing.judge.cost import PutByCommits
from lakeward.services.indexing.judge.index_list import ListedIndex, list_in_database
from lakeward.services.indexing.settings import record_options_of
from lakeward.services.indexing.table_indexes import RecordShape, TableIndexes
from lakeward.services.together.erasure.outside_index import OutsideIndex
from lakeward.state.engine import file_of, open_database, parse_store_url, shown_url
from lakeward.state.index_entries import IndexEntries, TableEntries, opened_entries

if TYPE_CHECKING:
    from lakeward.cli.configured_table import ConfiguredTable
    from lakeward.protocol.index.bucket_tasks import BucketSpread
    from lakeward.table.snapshot import TableSnapshot


DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        help="The database of an index of type postgres, as postgresql://user@host/database. Not given: the store of "
        "the configuration. A password belongs into the configuration's url_file or the environment. For an index of "
        "type hbase HBase's ZooKeeper and the index's table, as hbase://zk1,zk2:2181/TABLE.",
    ),
]
RateOption = Annotated[
    float | None,
    typer.Option(
        "--keys-per-second", min=1, metavar="N", help="Most queries per second to the database; default no limit."
    ),
]


def indexes_of(
    opened: ConfiguredTable,
    url: str | None,
    *,
    keys_per_second: float | None = None,
    spread: BucketSpread | None = None,
) -> TableIndexes:
    """The indexes of the table; one in a database is in the one of the configuration, or at the URL, and one in HBase
    at the URL. Says behind its use which entries of HBase were passed over.

    Args:
        keys_per_second: of an index in HBase.
        spread: where much work on buckets of a record index runs; None: in this process.
    """
    in_hbase = None if url is None or not url.startswith(SCHEME) else parse_place(url)
    database_url = url if in_hbase is None else None

    @contextmanager
    def entries(base_path: str, name: str) -> Iterator[IndexEntries]:
        with opened_entries(store_url(database_url, opened.settings), base_path, name) as found:
            yield found

    @contextmanager
    def database() -> Iterator[TableEntries]:
        found = open_database(store_url(database_url, opened.settings), create=False)
        try:
            yield TableEntries(found, opened.base_path)
        finally:
            found.close()

    @contextmanager
    def hbase(place: HBasePlace) -> Iterator[HBaseSource]:
        passed_over = PassedOver()
        clock = SystemClock()
        with HBaseEntries(place, user=user_name(), limit=RateLimit(keys_per_second, clock=clock), clock=clock) as found:
            yield HBaseSource(found, passed_over)
        if passed_over != PassedOver():
            typer.echo(str(passed_over), err=True)

    return TableIndexes(
        opened.storage,
        opened.base_path,
        record_options_of(opened.table),
        entries,
        database,
        open_hbase=None if in_hbase is None else partial(hbase, in_hbase),
        spread=spread,
    )


def outside_indexes(opened: ConfiguredTable, urls: Sequence[str]) -> tuple[OutsideIndex, ...]:
    """The servers that may have an index of the table: those that are named, and the store of the configuration if it
    is in PostgreSQL. Raises `UsageError` for a URL that is of no such server; none is asked yet."""
    stored = [opened.settings.store_url] if opened.settings.store_url.startswith("postgresql") else []
    named = [url for url in dict.fromkeys(urls) if url not in stored]
    return (
        *(_outside_index(opened.base_path, url, is_named=False) for url in stored),
        *(_outside_index(opened.base_path, url, is_named=True) for url in named),
    )


def shown_place(url: str) -> str:
    """The URL of a server with an index, without secrets. Raises `UsageError`."""
    return parse_place(url).shown if url.startswith(SCHEME) else shown_url(parse_store_url(url))


def _outside_index(base_path: str, url: str, *, is_named: bool) -> OutsideIndex:
    options = ("--url", shown_place(url)) if is_named else ()
    if url.startswith(SCHEME):
        place = parse_place(url)

        def ask_hbase(keys: pa.Array) -> Iterator[tuple[str, pa.Array]]:
            clock = SystemClock()
            with HBaseEntries(place, user=user_name(), limit=RateLimit(None, clock=clock), clock=clock) as entries:
                for found in entries.get(keys):
                    yield "", found[RECORD_KEY]

        return OutsideIndex(IndexType.HBASE, place.shown, options, ask_hbase)
    parsed = parse_store_url(url)
    if file_of(parsed) is not None:
        raise UsageError(
            f"There is no index of Lakeward in {shown_url(parsed)}.",
            why="Such indexes are in PostgreSQL.",
            remedy="Name it as postgresql://user@host/database.",
        )

    def ask_postgresql(keys: pa.Array) -> Iterator[tuple[str, pa.Array]]:
        database = open_database(url, create=False)
        try:
            indexes = TableEntries(database, base_path)
            for row in indexes.list():
                yield row.name, indexes.open(row.name).holding(keys)
        finally:
            database.close()

    return OutsideIndex(IndexType.POSTGRES, shown_url(parsed), options, ask_postgresql)


def put_in_database(opened: ConfiguredTable, url: str | None, number: int) -> PutByCommits:
    """What so many of the newest commits put into the index."""
    with opened_entries(store_url(url, opened.settings), opened.base_path, INDEX_NAME) as entries:
        return PutByCommits(*entries.newest_put(number))


def listed_in_database(opened: ConfiguredTable, snapshot: TableSnapshot, url: str | None) -> tuple[ListedIndex, ...]:
    """The indexes of the table in the database that is named, or that the store is in. If the store does not answer,
    the list has none of them, and a note says so.
    """
    if url is None and not opened.settings.store_url.startswith("postgresql"):
        return ()
    try:
        return list_in_database(indexes_of(opened, url), snapshot)
    except AWAY as error:
        if url is not None:
            raise
        typer.echo(f"The store does not say which indexes it has of the table: {error}", err=True)
        return ()


@dataclass(frozen=True, slots=True)
class RecordShapeArguments:
    """Options of the record index that is made, which has them until it is rebuilt."""

    buckets: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Number of buckets; default one for a million keys, and a third more for growth.",
        ),
    ] = None
    bucket_entries: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Entries that fill a bucket; default 1,000,000."),
    ] = None
    scaling: Annotated[
        ScalingWay | None,
        typer.Option(
            show_default=False,
            help="When buckets are full: group adds as many buckets as there are, seal lets a full bucket go on in "
            "another file group; default group.",
        ),
    ] = None
    hash_name: Annotated[
        str | None,
        typer.Option(
            "--hash",
            metavar=f"<{DEFAULT_HASH}|{SECOND_HASH}|{OWN_PREFIX}NAME>",
            help=f"Hash that spreads keys over the buckets; default {DEFAULT_HASH}. {OWN_PREFIX}NAME is a function of "
            "your own, which an installed package has as an entry point of lakeward.record_hashes.",
        ),
    ] = None

    def over(self, kind: LookupType) -> RecordShape:
        """Raises `UsageError`."""
        shape = RecordShape(self.buckets, self.bucket_entries, self.scaling, self.hash_name)
        if shape != RecordShape() and kind is not IndexType.RECORD:
            raise UsageError(
                f"The {kind} index has no buckets.",
                why="--buckets, --bucket-entries, --scaling and --hash shape the files of a record index.",
                remedy="Leave them out, or name --type record.",
            )
        if self.hash_name is not None and self.hash_name.startswith(OWN_PREFIX):
            return replace(shape, hash_name=fingerprinted(self.hash_name))
        if self.hash_name not in (None, DEFAULT_HASH, SECOND_HASH):
            raise UsageError(
                f"--hash cannot be {self.hash_name}.",
                why=did_you_mean(str(self.hash_name), (DEFAULT_HASH, SECOND_HASH), otherwise="There is no such hash."),
                remedy=f"Write {DEFAULT_HASH}, {SECOND_HASH} or {OWN_PREFIX} and the name of your own.",
            )
        return shape
