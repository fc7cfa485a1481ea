"""`lakeward index rebuild TABLE` and `lakeward index drop TABLE`: an index is rebuilt or removed.

Touches: stdout, stderr; the table, through `cli/services/metadata_commands.py`; the folder or the database of an index.
Keeps:   nothing of the table is written without a statement about the table's other writers, nor with --dry-run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from lakeward.base.errors import UsageError
from lakeward.cli.configured_table import ConfiguredTable, OpenedTable, ZonedTable
from lakeward.cli.index.builds import BuildArguments, ByteRateOption, describe_state, index_engines, state_as_json
from lakeward.cli.index.filter_cache import drop_cache, rebuild_cache
from lakeward.cli.index.group import dropped, type_option, work_watched
from lakeward.cli.index.metadata_build import MetadataArguments, build_in_metadata_table, only_of_metadata
from lakeward.cli.index.own_index import DatabaseOption, RateOption, RecordShapeArguments, indexes_of
from lakeward.cli.options.engine import EngineArguments
from lakeward.cli.options.lock import LockArguments
from lakeward.cli.result import DryRunOption, Result
from lakeward.cli.services.metadata_commands import remove_partition
from lakeward.format.metadata.partition import RECORD_INDEX
from lakeward.index.index_type import IndexType, LookupType
from lakeward.services.indexing.run.build_work import build_state
from lakeward.services.indexing.run.index_build import rebuild_in_place
from lakeward.services.indexing.table_indexes import RecordShape, check_not_chosen

if TYPE_CHECKING:
    from lakeward.cli.configured_table import ConfiguredTable

KeptTypeOption = Annotated[LookupType, type_option("--type", help="Index type.")]


def rebuild(
    *,
    opened: ZonedTable,
    index_type: KeptTypeOption,
    shape: RecordShapeArguments,
    engine: EngineArguments,
    bytes_per_second: ByteRateOption = None,
    keys_per_second: RateOption = None,
    url: DatabaseOption = None,
    of_metadata: MetadataArguments,
    writers: LockArguments,
    dry_run: DryRunOption = False,
) -> Result:
    """Rebuild an index, because it is wrong or damaged.

    An index of Lakeward's own, record or postgres, is rebuilt beside the existing one from the rows as they are, with
    tasks as in `lakeward index build`, and replaces it in one step at the end. Until then lookups use the old one; if
    the rebuild is stopped midway, the old one stays, and the next try continues from what was read. The table's rows
    and timeline are read only, and no lock is needed. The cache of --type bloom is rebuilt the same way, without tasks.

    With --type metadata a partition of the metadata table is rebuilt, as `lakeward index build` builds one: --kind says
    which. The old one stays until the new one takes its place, in a moment in which no write is pending.
    """
    build = BuildArguments(engine, bytes_per_second)
    if index_type is IndexType.METADATA:
        return build_in_metadata_table(opened, of_metadata, build, writers, dry_run=dry_run, replaces=True)
    if of_metadata.is_said:
        raise only_of_metadata(index_type)
    given_shape = shape.over(index_type)
    if not index_type.is_own and build.is_said:
        raise UsageError(
            f"The {index_type} index is not built by tasks of Lakeward's.",
            why="Tasks read the keys of file groups, for an index of type record or postgres.",
            remedy="Leave the options out that say where tasks run, and how fast they read.",
        )
    if index_type is IndexType.BLOOM:
        return rebuild_cache(opened, opened.snapshot(), dry_run=dry_run)
    if index_type.is_own:
        return _rebuild_own(opened, index_type, url, keys_per_second, build, given_shape, dry_run=dry_run)
    raise _no_index_of_its_own(index_type)


def drop(
    *,
    opened: OpenedTable,
    index_type: KeptTypeOption,
    url: DatabaseOption = None,
    given: LockArguments,
    dry_run: DryRunOption = False,
) -> Result:
    """Remove an index.

    The record index of the metadata table comes back with the next Hudi writer whose options keep it
    (`hoodie.metadata.record.index.enable`, or the table's `hoodie.index.type`): that writer rebuilds it, or
    `lakeward index build`. An index of Lakeward's own, record or postgres, and the cache of --type bloom are not part
    of the table's timeline and properties: no lock is needed.
    """
    if index_type is IndexType.BLOOM:
        return drop_cache(opened, dry_run=dry_run)
    if index_type.is_own:
        check_not_chosen(opened.storage, opened.base_path, index_type)
        with indexes_of(opened, url).place(index_type) as place:
            is_there = place.is_there() if dry_run else place.drop()
        return dropped(opened, index_type, "index", is_there=is_there, dry_run=dry_run)
    if index_type is not IndexType.METADATA:
        raise _no_index_of_its_own(index_type)
    locks = given.over(opened, dry_run=dry_run)
    return remove_partition(opened, RECORD_INDEX, locks, dry_run=dry_run)


def _rebuild_own(
    opened: ConfiguredTable,
    kind: LookupType,
    url: str | None,
    rate: float | None,
    given: BuildArguments,
    shape: RecordShape,
    *,
    dry_run: bool,
) -> Result:
    take = opened.snapshot
    document: dict[str, Any] = {"base_path": opened.base_path, "type": kind.value, "dry_run": dry_run}
    with (
        index_engines(opened, given.engine) as tasks,
        indexes_of(opened, url, spread=tasks.buckets).place(kind, keys_per_second=rate, shape=shape) as place,
        work_watched() as on_step,
    ):
        snapshot = take()
        is_global = place.open(snapshot).is_global
        state = build_state(opened.storage, snapshot, place.build_folder)
        if dry_run:
            rule = given.rule(opened)
            would = f"{describe_state(state, rule)} The index that there is would be dropped then."
            return Result(document=document | state_as_json(state, rule), lines=[would])
        with given.work(opened, kind, place.build_folder, on_step, tasks) as work:
            built = rebuild_in_place(opened.storage, place, take, work, is_global=is_global)
    figures = {"file_groups": built.groups, "file_groups_resumed": built.resumed, "entries": built.entries}
    did = f"Rebuilt from {built.entries:,} keys in {built.groups:,} file groups; the old one is gone."
    return Result(document=document | figures, lines=[did])


def _no_index_of_its_own(kind: LookupType) -> UsageError:
    if kind is IndexType.HBASE:
        return UsageError(
            "The index in HBase is neither rebuilt nor dropped by Lakeward.",
            why="It is read only.",
            remedy="Copy it into one of Lakeward's with `lakeward index migrate`; HBase's own shell drops its table.",
        )
    return UsageError(
        f"The {kind} index is the base files themselves.",
        why="Nothing is stored for it that could be wrong or removed.",
        remedy="Name another --type; `lakeward index list` shows what the table has.",
    )
