"""The work of `tasks`: an index is brought up to date, held against its table's rows, or compared with another one; and
commits are looked through for doubled keys.

Touches: the index, the folder of `index/log_inserts`, and the table, reading; for one in a database that, whose address
         its spec has.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack

from lakeward.base.clock import SystemClock
from lakeward.base.named_key import plain_key
from lakeward.index.index_type import IndexType
from lakeward.protocol.index.inserts import check_inserts
from lakeward.services.indexing.judge.check import Moment, check_index
from lakeward.services.indexing.judge.filter_cache_check import check_filter_cache
from lakeward.services.indexing.judge.tee_check import TeeMoment, check_tee
from lakeward.services.indexing.run.filter_cache_update import update_filter_cache
from lakeward.services.indexing.run.index_build import update_and_tidy
from lakeward.services.indexing.table_indexes import TableIndexes
from lakeward.services.indexing.upkeep.tasks import (
    NAMED_MAX,
    IndexChecked,
    IndexCheckSpec,
    IndexSpec,
    IndexUpdated,
    TeeCompared,
    TeeSpec,
)
from lakeward.storage.storage import Storage
from lakeward.storage.storage_of_url import open_storage
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot, take_snapshot


def update(location: str, spec: IndexSpec) -> IndexUpdated:
    storage, base_path = open_storage(location)
    if spec.type is IndexType.BLOOM:
        change = update_filter_cache(storage, _taken(storage, base_path, spec), on_file=lambda done, of: None)
        return IndexUpdated(change.commits, bool(change.gone or change.notes), change.notes[:NAMED_MAX])
    with _indexes(storage, base_path, spec).writer(spec.type) as opens:
        done = update_and_tidy(storage, opens, lambda: _taken(storage, base_path, spec))
    return IndexUpdated(len(done.commits), done.is_tidied)


def check(location: str, spec: IndexCheckSpec) -> IndexChecked:
    storage, base_path = open_storage(location)
    if spec.index.type is IndexType.BLOOM:
        found = check_filter_cache(storage, _taken(storage, base_path, spec.index), spec.size)
        return IndexChecked(0) if found is None else IndexChecked.of_cache(found, spec.size.confidence)
    with _indexes(storage, base_path, spec.index).reader(spec.index.type, is_judged=True) as opens:

        def moment_now() -> Moment:
            snapshot = _taken(storage, base_path, spec.index)
            return Moment(snapshot, opens(snapshot))

        return IndexChecked.of_rows(check_index(storage, moment_now, spec.size))


def look_through(location: str, spec: IndexSpec) -> None:
    storage, base_path = open_storage(location)
    check_inserts(storage, base_path, lambda: _taken(storage, base_path, spec), clock=SystemClock())


def compare(location: str, spec: TeeSpec) -> TeeCompared:
    storage, base_path = open_storage(location)
    with ExitStack() as databases:
        first, second = (
            databases.enter_context(_indexes(storage, base_path, each).reader(each.type, is_judged=True))
            for each in (spec.primary, spec.shadow)
        )

        def moment_now() -> TeeMoment:
            snapshot = _taken(storage, base_path, spec.primary)
            return TeeMoment(snapshot, first(snapshot), second(snapshot))

        found = check_tee(storage, moment_now, after=spec.after, seed=spec.seed, clock=SystemClock())
    differences = (
        f"{plain_key(each.key)}: {spec.primary.type} says {_places(each.first)}, "
        f"{spec.shadow.type} says {_places(each.second)}; "
        + (f"its row is in {_places(each.rows)}" if each.rows else "no row of it was found")
        for each in found.differences[:NAMED_MAX]
    )
    return TeeCompared(found.commits, tuple(differences))


def _places(groups: Iterable[GroupId]) -> str:
    return " and ".join(f"{file_id} of {path or 'the table'}" for path, file_id in groups) or "nowhere"


def _indexes(storage: Storage, base_path: str, spec: IndexSpec) -> TableIndexes:
    return TableIndexes(storage, base_path, spec.record, spec.open_entries)


def _taken(storage: Storage, base_path: str, spec: IndexSpec) -> TableSnapshot:
    """The table as it is now, read as the spec says."""
    return take_snapshot(storage, base_path, timezone=spec.timezone, clock=SystemClock(), listing=spec.listing)
