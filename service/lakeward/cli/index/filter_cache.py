"""The cache of filters below a table, as the verbs about indexes handle it: `--type bloom`.

Touches: stdout, stderr; the folder of the cache; the table, reading only.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lakeward.base.quantities import format_count, format_size
from lakeward.cli.index.group import dropped, work_watched
from lakeward.cli.result import Result
from lakeward.index.bloom.cache_manifest import cache_folder
from lakeward.index.bloom.data_files import data_files
from lakeward.index.bloom.filter_cache import FilterCache
from lakeward.index.index_type import IndexType
from lakeward.protocol.index.filter_cache_writer import drop_filter_cache
from lakeward.services.indexing.run.filter_cache_update import (
    build_filter_cache,
    rebuild_filter_cache,
    update_filter_cache,
)

if TYPE_CHECKING:
    from lakeward.cli.configured_table import ConfiguredTable
    from lakeward.services.indexing.run.filter_cache_update import CacheChange
    from lakeward.table.snapshot import TableSnapshot

_READ = "read {} of {} footers and logs"


def build_cache(opened: ConfiguredTable, snapshot: TableSnapshot, *, with_logs: bool) -> Result:
    with work_watched() as on_step:
        change = build_filter_cache(opened.storage, snapshot, with_logs=with_logs, on_file=partial(on_step, _READ))
    return _changed(opened, change)


def update_cache(opened: ConfiguredTable, snapshot: TableSnapshot) -> Result:
    with work_watched() as on_step:
        change = update_filter_cache(opened.storage, snapshot, on_file=partial(on_step, _READ))
    return _changed(opened, change)


def rebuild_cache(opened: ConfiguredTable, snapshot: TableSnapshot, *, dry_run: bool) -> Result:
    if not dry_run:
        with work_watched() as on_step:
            change = rebuild_filter_cache(opened.storage, snapshot, on_file=partial(on_step, _READ))
        return _changed(opened, change)
    cache = FilterCache.of(opened.storage, cache_folder(opened.base_path))
    files = len(data_files(snapshot, with_logs=cache is not None and cache.manifest.with_logs))
    return Result(
        document={"base_path": opened.base_path, "type": IndexType.BLOOM.value, "dry_run": True, "read": files},
        lines=[f"Would read {files:,} footers and logs, and then leave the cache that there is."],
    )


def drop_cache(opened: ConfiguredTable, *, dry_run: bool) -> Result:
    folder = cache_folder(opened.base_path)
    is_there = bool(opened.storage.list(folder)) if dry_run else drop_filter_cache(opened.storage, opened.base_path)
    return dropped(opened, IndexType.BLOOM, "cache of filters", is_there=is_there, dry_run=dry_run)


def _changed(opened: ConfiguredTable, change: CacheChange) -> Result:
    files = format_count(change.files, "file")
    return Result(
        document={
            "base_path": opened.base_path,
            "type": IndexType.BLOOM.value,
            "covered": change.covered,
            "read": change.read,
            "gone": change.gone,
            "files": change.files,
            "bytes": change.bytes,
            "broken": list(change.notes),
        },
        lines=[
            f"The cache has filters and ranges of {change.covered:,} of the table's files in {files} of "
            f"{format_size(change.bytes)}; {change.read:,} were read, {change.gone:,} entries went."
        ],
        notes=change.notes,
    )
