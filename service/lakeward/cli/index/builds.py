"""Options that say where the tasks of an index build run, and what these verbs report of them.

Touches: the folder of the build; processes of this machine or a Spark session, by `cli/options/engine`; the store, by
         `remembered_build`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from secrets import token_hex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeward.base.clock import Clock, SystemClock
from lakeward.base.errors import Cancelled
from lakeward.base.quantities import format_count, format_size, parse_size
from lakeward.cli.options.engine import CommandEngines, EngineArguments, describe_engine, engine_as_json
from lakeward.cli.options.store import AWAY, TIMEOUT_SECONDS, has_store, opened_store
from lakeward.cli.options.values import parse_option
from lakeward.cli.serviced import interruptible
from lakeward.engine.task.entry import make_checkpoint_at
from lakeward.index.key_checkpoints import FORM_VERSION
from lakeward.protocol.index.bucket_tasks import run_bucket_task_at
from lakeward.protocol.progress import Pace
from lakeward.services.indexing.run.bucket_build import write_buckets_at
from lakeward.services.indexing.run.bucket_dispatch import BucketDispatch
from lakeward.services.indexing.run.build_work import BuildWork
from lakeward.state.records import IndexBuildRecord, IndexCheckpoint

if TYPE_CHECKING:
    from lakeward.cli.configured_table import ConfiguredTable
    from lakeward.engine.dispatch.engine_rule import EngineRule
    from lakeward.index.build_state import BuildState
    from lakeward.index.index_type import LookupType
    from lakeward.services.indexing.run.build_work import BuildWork
    from lakeward.state.store import Store


ByteRateOption = Annotated[
    str | None,
    typer.Option(
        "--bytes-per-second",
        metavar="SIZE",
        help="Read at most so much of the table per second, all tasks together; default no limit.",
    ),
]


@dataclass(frozen=True, slots=True)
class BuildArguments:
    """What a command line says of how the keys of the table are read."""

    engine: EngineArguments
    bytes_per_second: str | None

    @property
    def is_said(self) -> bool:
        return any((*self.engine.by_option().values(), self.bytes_per_second))

    def rule(self, opened: ConfiguredTable) -> EngineRule:
        return self.engine.over(opened.settings, memory_bytes=opened.table.memory).rule

    @contextmanager
    def work(
        self,
        opened: ConfiguredTable,
        kind: LookupType,
        folder: str,
        on_step: Callable[[str, int, int], None],
        tasks: IndexEngines,
    ) -> Iterator[BuildWork]:
        """The work of one build. Raises `UsageError`."""
        rate = parse_option(_parse_rate, "--bytes-per-second", self.bytes_per_second, None)
        clock = SystemClock()
        read, pace = "", Pace()

        def on_read(read_bytes: int) -> None:
            nonlocal read
            rate = pace.rate(clock.monotonic(), read_bytes)
            read = f", {format_size(read_bytes)}" + ("" if rate is None else f", {format_size(rate)}/s")

        def on_group(done: int, of: int) -> None:
            on_step(f"read the keys of {{}} of {{}} file groups{read}", done, of)

        with remembered_build(opened, kind, clock) as on_state:
            tasks.engines.check()
            yield BuildWork(
                folder,
                tasks.engines.choose,
                partial(make_checkpoint_at, opened.base_path),
                partial(write_buckets_at, opened.base_path),
                memory_bytes=opened.table.memory,
                bytes_per_second=rate,
                clock=clock,
                guard=tasks.guard,
                on_group=on_group,
                on_buckets=partial(on_step, "{} of {} tasks have written files of the index"),
                on_read=on_read,
                on_state=on_state,
            )


@dataclass(frozen=True, slots=True)
class IndexEngines:
    """The engines of a command that writes an index, for its builds and its updates."""

    engines: CommandEngines
    guard: Callable[[], None]
    buckets: BucketDispatch
    """Tasks over buckets of a record index run there."""


@contextmanager
def index_engines(opened: ConfiguredTable, engine: EngineArguments) -> Iterator[IndexEngines]:
    """Raises `UsageError`."""
    with engine.over(opened.settings, memory_bytes=opened.table.memory) as engines, interruptible() as guard:
        run = partial(run_bucket_task_at, opened.base_path)
        yield IndexEngines(engines, guard, BucketDispatch(engines.choose, run, guard))


def _parse_rate(text: str) -> int | None:
    rate = parse_size(text)
    if not rate:
        raise ValueError("Nothing would ever be read.")
    return rate


def state_as_json(state: BuildState, rule: EngineRule) -> dict[str, Any]:
    """What a build would read."""
    return {
        "file_groups": len(state.slices),
        "file_groups_read": len(state.made),
        "bytes": state.bytes,
        **engine_as_json(state.bytes_missing, rule),
    }


def describe_state(state: BuildState, rule: EngineRule) -> str:
    number, size = len(state.missing), state.bytes_missing
    sentence = f"Would read the keys of {format_count(number, 'file group')}, of {format_size(size)}, "
    sentence += f"{describe_engine(size, rule)}."
    if state.made:
        sentence += f" What {len(state.made):,} others hold is there from a build that was stopped."
    return sentence


@contextmanager
def remembered_build(opened: ConfiguredTable, kind: LookupType, clock: Clock) -> Iterator[Callable[[BuildState], None]]:
    """Takes how far the build is. One that its process ends in the middle of goes on when it is begun again."""
    if not has_store(opened.settings):
        yield lambda state: None
        return
    with ExitStack() as held:
        try:
            store = held.enter_context(opened_store(None, opened.settings, clock, timeout=TIMEOUT_SECONDS))
        except AWAY as error:
            _say(error)
            yield lambda state: None
            return
        rows = _Rows(store, opened.settings.name_of(opened.base_path), kind, clock)
        try:
            yield rows.take
        except Cancelled:
            raise
        except Exception as error:
            rows.end("failed", str(error))
            raise
        rows.end("built", None)


def _say(error: Exception) -> None:
    typer.echo(f"The store does not remember how far the build is: {error}", err=True)


@dataclass(slots=True)
class _Rows:
    store: Store
    table: str
    kind: LookupType
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
