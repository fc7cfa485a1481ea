"""What the store remembers of a build of an index: how far it is, and how it ended.

Touches: the store of the configuration, else that of this user, where there is one.
Keeps:   a store that does not answer stops nothing, and is said to remember nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from secrets import token_hex
from typing import TYPE_CHECKING

import typer

from lakeward.base.clock import Clock
from lakeward.base.errors import Cancelled
from lakeward.cli.options.store import AWAY, TIMEOUT_SECONDS, has_store
from lakeward.index.key_checkpoints import FORM_VERSION
from lakeward.state.records import IndexBuildRecord, IndexCheckpoint

if TYPE_CHECKING:
    from lakeward.cli.configured_table import ConfiguredTable
    from lakeward.index.build_state import BuildState
    from lakeward.index.index_type import IndexType
    from lakeward.state.store import Store


@contextmanager
def remembered_build(opened: ConfiguredTable, kind: IndexType, clock: Clock) -> Iterator[Callable[[BuildState], None]]:
    """Takes how far the build is. One that its process ends in the middle of goes on when it is begun again."""
    if not has_store(opened.settings):
        yield lambda state: None
        return
    from lakeward.state.store import open_store

    try:
        store = open_store(opened.settings.store_url, clock=clock, timeout=TIMEOUT_SECONDS)
    except AWAY as error:
        _say(error)
        yield lambda state: None
        return
    try:
        rows = _Rows(store, opened.settings.name_of(opened.base_path), kind, clock)
        try:
            yield rows.take
        except Cancelled:
            raise
        except Exception as error:
            rows.end("failed", str(error))
            raise
        rows.end("built", None)
    finally:
        store.close()


def _say(error: Exception) -> None:
    typer.echo(f"The store does not remember how far the build is: {error}", err=True)


@dataclass(slots=True)
class _Rows:
    store: Store
    table: str
    kind: IndexType
    clock: Clock
    build_id: str | None = None
    is_away: bool = False
    known: set[str] = field(default_factory=set)
    """The digests of the checkpoints that are in the store."""

    def take(self, state: BuildState) -> None:
        # All that another build needs to go on with what this one read.
        settings = f"checkpoints of form {FORM_VERSION}"
        if self.is_away or state.commit is None:
            return
        now = self.clock.now()
        try:
            builds = self.store.index_builds
            if self.build_id is None:
                going_on = builds.going_on(self.table, self.kind.value, settings)
                self.build_id = token_hex(8) if going_on is None else going_on.id
                builds.begin(
                    IndexBuildRecord(
                        self.build_id,
                        self.table,
                        self.kind.value,
                        self.kind.value,
                        settings,
                        began_at=now,
                        instant=state.commit.instant,
                        file_groups=len(state.slices),
                    )
                )
            new = [(each, state.slices[digest]) for digest, each in state.made.items() if digest not in self.known]
            builds.record(
                self.build_id,
                [
                    IndexCheckpoint(
                        slice_.partition_path,
                        slice_.file_id,
                        slice_.base_instant,
                        each.rows,
                        each.bytes,
                        (each.name,),
                        now,
                    )
                    for each, slice_ in new
                ],
            )
            self.known |= state.made.keys()
        except AWAY as error:
            self.is_away = True
            _say(error)

    def end(self, result: str, error: str | None) -> None:
        if self.is_away or self.build_id is None:
            return
        try:
            self.store.index_builds.end(self.build_id, result, error, at=self.clock.now())
        except AWAY as away:
            _say(away)
