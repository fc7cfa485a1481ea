"""Rows through Spark: its tasks read and tag them, its shuffle brings them together, its sort puts them in order.

    files --keyed, tagged, counted--> Workload          with an index that takes the key alone
    files --keyed, tagged, placed by the Assignment--+
                                                     +--repartitioned by task, sorted within by (target, key as UTF-8,
    kept rows --joined with the Assignment-----------+  place in the input)--handles--> results
    data frame or files --keyed, joined with what tasks find in files, kept by Spark, counted--> Workload
                          (by ranges and filters: `spark_comparison`)

Files are read twice: reading and keying a row again costs a tenth of what Spark takes to keep it (measured on a
million rows: 2 s of CPU, and 20). What an unknown data frame costs, or a join, is paid once, and the rows are kept. A
target is chosen by what was counted, so both readings must say the same: the sum over what the handles got is held
against that over what was counted, and the write fails before anything of it is published.

Touches: the input; a Spark driver of this process; what handles and tagging touch.
Keeps:   1. one target is the work of exactly one task, and of its retries, whose files have names of their own;
         2. what the handles got is what was counted, row by row of keys and places in the input, or the write fails.
See:     docs/decisions/0059-rows-through-spark.md
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import groupby, pairwise
from math import ceil
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel, TaskContext
from pyspark.sql import functions

from lakeward.base.errors import Conflict, EngineLost, LakewardError, TaskFailed, VerificationFailed
from lakeward.engine.dispatch.dispatcher import Done, Failure, Progress
from lakeward.engine.dispatch.spark import POOL
from lakeward.engine.dispatch.spark_failure import carried, mark, what_happened
from lakeward.engine.dispatch.spark_session import LocalSession
from lakeward.engine.task.operation import ATTEMPTS_MAX
from lakeward.format.projection import project
from lakeward.index.bloom.bloom_index import BloomIndex
from lakeward.index.bloom.slice_index import SliceBloomIndex
from lakeward.index.index import HashedIndex, Index
from lakeward.index.location import FILE_ID, INSTANT, LOCATIONS
from lakeward.storage.storage_of_url import open_storage
from lakeward.write.flow.parts import InputPart, InputParts
from lakeward.write.flow.row_counts import Counted, Place, add_up, count_places, count_rows
from lakeward.write.flow.row_keys import Keying
from lakeward.write.flow.shares import NOWHERE, targets_of
from lakeward.write.flow.slots import assign_slots, numbers_into
from lakeward.write.flow.spark_comparison import comparing
from lakeward.write.flow.spark_frames import carrying, numbers_of, quoted, spark_schema
from lakeward.write.flow.spark_one_place import SparkOnePlace, ranges_of
from lakeward.write.handles.handle import write_target
from lakeward.write.keyed_rows import (
    IS_NEW,
    ORDER,
    PARTITION_PATH,
    PLACE,
    RECORD_KEY,
    TARGET,
    handled_schema,
    keyed_schema,
    placed_schema,
    tagged_schema,
)
from lakeward.write.tagging.tagging_kinds import BatchTagging, LookupTagging, Tagging
from lakeward.write.target import Assignment, Share, TargetResult, Workload, WriteContext, WriteTarget

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PART_BITS = 40
"""ORDER is the number of the part, and in so many bits that of the row in it."""
_TASKS_FOR_EACH_CORE = 4
"""Tasks that write, where there are targets for so many: the last ones keep fewer cores waiting."""
_TASK_ROWS = 2_000_000
"""What a task gets at most, where several targets could go together."""
_STEPS = 16
"""Hashes of keys are told apart in so many steps for each share of a place."""
_MOVED = "_lakeward_moved"
_START, _STEP, _STEP_COUNT, _NUMBER = "_lakeward_start", "_lakeward_step", "_lakeward_steps", "_lakeward_number"
_OF_PARTITION, _OF_PLACE = "_lakeward_partition", "_lakeward_of_place"
_COUNTS = pa.schema([(PARTITION_PATH, pa.string()), (PLACE, pa.string()), ("rows", pa.int64()), ("total", pa.string())])
_OUTCOMES = pa.schema([("outcome", pa.binary()), ("rows", pa.int64()), ("total", pa.string())])

T = TypeVar("T")


class SparkFlow:
    def __init__(self, session: LocalSession, location: str, source: InputParts | DataFrame) -> None:
        """
        Args:
            location: of the table, as tasks open its storage.
            source: files, or a data frame of the driver that `session` is.
        """
        self._session = session
        self._location = location
        self._source = source
        self._sql = session.sql() if isinstance(source, InputParts) else source.sparkSession
        self._keying: Keying | None = None
        self._keyed: DataFrame | None = None
        self._tagged: DataFrame | None = None
        """What is kept, with PLACE; None where files are read again."""
        self._kept: list[DataFrame] = []
        self._tagging: BatchTagging | None = None
        self._counted: dict[Place, Counted] = {}

    def tag(self, keying: Keying, tagging: Tagging, *, on_progress: Callable[[Progress], None]) -> Workload:
        if self._keying not in (None, keying):
            raise Conflict(
                "The table's columns or keys changed while rows were written to it.",
                why="Another writer changed them, after the rows had been brought into their form.",
                remedy="Write again. Nothing was written.",
            )
        self._keying = keying
        counted = self._run(lambda: self._tag_and_count(keying, tagging), "tagging rows", on_progress)
        self._counted = counted
        return Workload({place: each.rows for place, each in counted.items()})

    def write(
        self, context: WriteContext, assignment: Assignment, *, on_progress: Callable[[Progress], None]
    ) -> list[TargetResult]:
        keying = self._keying
        assert keying is not None, "rows are tagged before they are written"
        plan = _plan_tasks(assignment, self._session.parallelism)
        if not plan.tasks:
            return []
        frame = self._placed_again(keying, assignment, plan) if self._tagged is None else self._placed(keying, plan)
        frame = frame.repartition(plan.tasks, _NUMBER).sortWithinPartitions(TARGET, RECORD_KEY, ORDER).drop(_NUMBER)
        work = partial(_write, self._location, context, {each.index: each for each in assignment.targets}, keying)
        outcomes = frame.mapInArrow(carrying(work), spark_schema(_OUTCOMES))
        rows = self._run(outcomes.collect, f"writing rows at {context.instant}", on_progress)
        failures = [outcome for row in rows if isinstance(outcome := pickle.loads(row["outcome"]), Failure)]
        if failures:
            first, *others = sorted(failures, key=lambda failure: failure.index)
            first.error.beside = tuple(failure.error for failure in others)
            raise first.error
        results: list[TargetResult] = [pickle.loads(row["outcome"]).result for row in rows]
        expected = sum((self._counted[place] for place in plan.places), Counted())
        if sum((Counted(row["rows"], int(row["total"])) for row in rows), Counted()) != expected:
            raise _changed()
        results.sort(key=lambda result: result.index)
        assert len({result.index for result in results}) == len(results), "one task for each target"
        on_progress(Progress(len(assignment.targets), len(assignment.targets)))
        return results

    def close(self) -> None:
        if self._keyed is not None:
            self._kept.append(self._keyed)
        self._let_go()
        self._tagged = self._keyed = None
        if isinstance(self._source, InputParts):
            self._source.close()

    def _tag_and_count(self, keying: Keying, tagging: Tagging) -> dict[Place, Counted]:
        if isinstance(tagging, BatchTagging) and isinstance(self._source, InputParts):
            self._tagging = tagging
            parts = self._source.parts()
            counts = carrying(partial(_count_parts, parts, keying, tagging))
            return self._add_up(self._numbers(len(parts)).mapInArrow(counts, spark_schema(_COUNTS)))
        if self._keyed is None:
            self._keyed = self._read(keying, tagging).persist(StorageLevel.MEMORY_AND_DISK)
        if isinstance(tagging, BatchTagging):
            self._tagged = self._keyed
        else:
            self._let_go()
            found = self._by_key(keying, tagging) if tagging.index.is_global else self._by_partition(tagging.index)
            self._tagged = self._keep(found.select(*quoted(tagged_schema(keying.columns).names)))
        counted = self._tagged.select(RECORD_KEY, PARTITION_PATH, PLACE, ORDER)
        return self._add_up(counted.mapInArrow(carrying(_count_tagged), spark_schema(_COUNTS)))

    def _add_up(self, counts: DataFrame) -> dict[Place, Counted]:
        return add_up(
            {(row[PARTITION_PATH], row[PLACE]): Counted(row["rows"], int(row["total"]))} for row in counts.collect()
        )

    def _read(self, keying: Keying, tagging: Tagging) -> DataFrame:
        """Keyed rows; tagged, where that takes the batch alone."""
        of_batch = tagging if isinstance(tagging, BatchTagging) else None
        schema = keyed_schema(keying.columns) if of_batch is None else tagged_schema(keying.columns)
        if isinstance(self._source, InputParts):
            parts = self._source.parts()
            keyed = carrying(partial(_read_parts, parts, keying, of_batch))
            return self._numbers(len(parts)).mapInArrow(keyed, spark_schema(schema))
        return self._source.mapInArrow(carrying(partial(_key_part, keying, of_batch)), spark_schema(schema))

    def _numbers(self, count: int) -> DataFrame:
        """From 0 on, each in a task of its own."""
        return self._sql.range(0, count, 1, numPartitions=max(count, 1))

    def _by_partition(self, index: Index) -> DataFrame:
        """The keyed rows with the places that an index has for their keys in their partitions."""
        rows = self._keyed
        assert rows is not None
        partitions = [row[0] for row in rows.select(PARTITION_PATH).distinct().collect()]
        if isinstance(index, HashedIndex):
            found = self._by_hash(index, rows.select(RECORD_KEY).distinct(), partitions)
        else:
            keys = self._keep(rows.select(RECORD_KEY, PARTITION_PATH).distinct())
            found = self._in_files(index, keys, partitions)
        return rows.join(found, [RECORD_KEY, PARTITION_PATH], "left_outer")

    def _by_key(self, keying: Keying, tagging: LookupTagging) -> DataFrame:
        """The keyed rows with the places that a global index has for their keys, and its partitions; and rows that say
        which keys leave."""
        assert self._keyed is not None
        rows, index, one = self._keyed, tagging.index, tagging.one_place
        ranges = self._keep(ranges_of(rows))
        if isinstance(index, HashedIndex):
            found = self._by_hash(index, ranges.select(RECORD_KEY), None)
        else:
            found = self._in_files(index, ranges.select(RECORD_KEY), None)
        if one is None:
            return _joined(rows, found)
        placing = SparkOnePlace(self._sql, self._location, one, keying, self._keep)
        placed = placing.placed(rows, ranges, found)
        if placed.left is None or placed.lost is None:
            return _joined(rows, placed.locations)
        tagged = _joined(rows.join(placed.lost, RECORD_KEY, "left_anti"), placed.locations)
        names = quoted(tagged_schema(keying.columns).names)
        return tagged.select(*names).union(placing.leaving(placed.left))

    def _in_files(self, index: Index, keys: DataFrame, partitions: Sequence[str] | None) -> DataFrame:
        """The locations that the files of these partitions have of these keys, and maybe of others.

        Args:
            keys: each of them once, of an index that is not global with its partition path; Spark keeps them.
        """
        if isinstance(index, BloomIndex | SliceBloomIndex):
            found = comparing(self._location, index, partitions, keys, parallelism=self._session.parallelism)
            if found is not None:
                return _places(found)
        return self._all_of(index, partitions)

    def _all_of(self, index: Index, partitions: Sequence[str] | None) -> DataFrame:
        """The locations that the files of these partitions have."""
        parts = index.parts(partitions)
        look_up = carrying(partial(_look_up_parts, self._location, index, parts))
        return _places(self._numbers(len(parts)).mapInArrow(look_up, spark_schema(LOCATIONS)))

    def _by_hash(self, index: HashedIndex, keys: DataFrame, partitions: Sequence[str] | None) -> DataFrame:
        """The locations of these keys, which are each there once; each part is asked by one task, for its keys alone,
        and a part that has none of them by none."""
        numbered = pa.schema([pa.field(RECORD_KEY, pa.string()), pa.field(_NUMBER, pa.int32())])
        numbers = numbers_into(index.count)
        work = carrying(partial(_number_keys, index, numbers))
        by_part = keys.mapInArrow(work, spark_schema(numbered))
        look_up = carrying(partial(_look_up_keys, self._location, index, index.parts(partitions), numbers))
        return _places(by_part.repartition(index.count, _NUMBER).mapInArrow(look_up, spark_schema(LOCATIONS)))

    def _keep(self, frame: DataFrame) -> DataFrame:
        """What is tagged, until the rows are tagged again."""
        self._kept.append(frame.persist(StorageLevel.MEMORY_AND_DISK))
        return frame

    def _let_go(self) -> None:
        for frame in self._kept:
            with suppress(Exception):  # of a driver that died nothing is left
                frame.unpersist()
        self._kept.clear()

    def _placed_again(self, keying: Keying, assignment: Assignment, plan: _TaskPlan) -> DataFrame:
        """The rows of files, read again, with TARGET and the number of the task."""
        assert isinstance(self._source, InputParts) and self._tagging is not None
        parts = self._source.parts()
        work = carrying(partial(_place_parts, parts, keying, self._tagging, assignment.places, plan.numbers))
        schema = placed_schema(keying.columns).append(pa.field(_NUMBER, pa.int32()))
        return self._numbers(len(parts)).mapInArrow(work, spark_schema(schema))

    def _placed(self, keying: Keying, plan: _TaskPlan) -> DataFrame:
        """The kept rows with TARGET and the number of the task."""
        assert self._tagged is not None
        col, names = functions.col, keyed_schema(keying.columns).names
        of_places, of_steps = plan.steps_by_place()
        places = self._sql.createDataFrame(
            of_places, f"{_OF_PARTITION} string, {_OF_PLACE} string, {_START} int, {_STEP_COUNT} int"
        )
        steps = self._sql.createDataFrame(of_steps, f"{_STEP} int, {TARGET} int, {_NUMBER} int")
        at_place = (col(PARTITION_PATH) == col(_OF_PARTITION)) & col(PLACE).eqNullSafe(col(_OF_PLACE))
        step = f"{_START} + cast(pmod(xxhash64({RECORD_KEY}), {_STEP_COUNT}) as int) as {_STEP}"
        return (
            self._tagged.join(functions.broadcast(places), at_place)
            .selectExpr(*quoted(names), f"{PLACE} is null as {IS_NEW}", step)
            .join(functions.broadcast(steps), _STEP)
            .select(*quoted(names), IS_NEW, TARGET, _NUMBER)
        )

    def _run(self, act: Callable[[], T], description: str, on_progress: Callable[[Progress], None]) -> T:
        stopped: list[BaseException] = []

        def report(finished: int) -> None:
            try:
                on_progress(Progress(0, 0))
            except BaseException as error:
                stopped.append(error)
                raise

        try:
            return self._session.run(act, description=description, pool=POOL, on_finished=report)
        except LakewardError:
            raise
        except Exception as error:
            if stopped:
                raise
            if not self._session.is_alive():
                raise EngineLost(
                    f"Spark died while it was {description}.",
                    why="Its driver process ended or no longer answers; the machine may have run out of memory.",
                    remedy="Nothing was published. Run it again: a new session is started.",
                ) from error
            if (own := carried(error)) is not None:
                raise own from error
            raise TaskFailed(
                f"The Spark job '{description}' failed.",
                why=what_happened(error),
                remedy="See the executor's log for the whole story; the table is as it was.",
            ) from error


@dataclass(frozen=True, slots=True)
class _TaskPlan:
    tasks: int
    places: Mapping[Place, Sequence[Share]]
    """The places that have a target."""
    numbers: npt.NDArray[np.int32]
    """For each target one that takes a row into its task."""

    def steps_by_place(self) -> tuple[list[tuple[str, str | None, int, int]], list[tuple[int, int, int]]]:
        """A place has a range of steps, of which a key's hash chooses one, and each step a target and its number."""
        places: list[tuple[str, str | None, int, int]] = []
        steps: list[tuple[int, int, int]] = []
        for (partition_path, place), shares in self.places.items():
            targets = _in_steps(shares)
            places.append((partition_path, place, len(steps), len(targets)))
            for target in targets:
                steps.append((len(steps), target, int(self.numbers[target])))
        return places, steps


def _plan_tasks(assignment: Assignment, parallelism: int) -> _TaskPlan:
    places = {place: shares for place, shares in assignment.places.items() if shares}
    rows: dict[int, int] = defaultdict(int)
    for shares in places.values():
        for share in shares:
            rows[share.target] += share.rows
    slots = max(parallelism * _TASKS_FOR_EACH_CORE, ceil(sum(rows.values()) / _TASK_ROWS))
    slot_of = assign_slots(rows, slots)
    tasks = len(set(slot_of.values()))
    numbers = np.zeros(len(assignment.targets), dtype=np.int32)
    if tasks:
        numbers[list(slot_of)] = numbers_into(tasks)[list(slot_of.values())]
    return _TaskPlan(tasks, places, numbers)


def _in_steps(shares: Sequence[Share]) -> list[int]:
    """The target of each step of a place: as many steps as go with the rows of a share, and one at least."""
    if len(shares) == 1:
        return [shares[0].target]
    total, count = sum(share.rows for share in shares), len(shares) * _STEPS
    return [share.target for share in shares for _ in range(max(1, round(share.rows * count / total)))]


def _places(found: DataFrame) -> DataFrame:
    return found.drop(INSTANT).withColumnRenamed(FILE_ID, PLACE)


def _joined(rows: DataFrame, locations: DataFrame) -> DataFrame:
    """The rows with the places of their keys, in the partitions that these are in."""
    joined = rows.join(locations.withColumnRenamed(PARTITION_PATH, _MOVED), RECORD_KEY, "left_outer")
    return joined.withColumn(PARTITION_PATH, functions.coalesce(_MOVED, PARTITION_PATH))


def _changed() -> VerificationFailed:
    return VerificationFailed(
        "The rows that were to be written are not those that were counted before.",
        why="Between the two the input changed, or Spark lost what it had kept and made other rows of it.",
        remedy="Write from what does not change while it is read. Nothing was published.",
    )


# What runs in tasks.


def _read_parts(
    parts: Sequence[InputPart], keying: Keying, tagging: BatchTagging | None, numbers: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for number in numbers_of(numbers):
        yield from _key_rows(parts[number].batches(), number, keying, tagging)


def _count_parts(
    parts: Sequence[InputPart], keying: Keying, tagging: BatchTagging, numbers: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    yield from _count_tagged(_read_parts(parts, keying, tagging, numbers))


def _count_tagged(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    counts = add_up(map(count_places, batches))
    rows = [(*place, counted.rows, str(counted.total)) for place, counted in counts.items()]
    yield pa.RecordBatch.from_pylist([dict(zip(_COUNTS.names, row, strict=True)) for row in rows], _COUNTS)


def _place_parts(
    parts: Sequence[InputPart],
    keying: Keying,
    tagging: BatchTagging,
    places: Mapping[Place, Sequence[Share]],
    task_numbers: npt.NDArray[np.int32],
    numbers: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    for tagged in _read_parts(parts, keying, tagging, numbers):
        try:
            targets = targets_of(tagged, places)
        except KeyError as unknown:
            raise _changed() from unknown
        rows = tagged.drop_columns([PLACE]).append_column(IS_NEW, pc.is_null(tagged.column(PLACE)))
        rows = rows.append_column(TARGET, pa.array(targets))
        rows = rows.append_column(_NUMBER, pa.array(task_numbers[targets]))
        yield rows if (targets != NOWHERE).all() else rows.filter(pa.array(targets != NOWHERE))


def _key_part(
    keying: Keying, tagging: BatchTagging | None, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    yield from _key_rows(batches, _task().partitionId(), keying, tagging)


def _key_rows(
    batches: Iterable[pa.RecordBatch], part: int, keying: Keying, tagging: BatchTagging | None
) -> Iterator[pa.RecordBatch]:
    rows = 0
    for batch in batches:
        keyed = keying.keyed(batch, rows_before=rows, order=(part << _PART_BITS) + rows)
        rows += batch.num_rows
        yield keyed if tagging is None else keyed.append_column(PLACE, tagging.places(keyed))


def _look_up_parts(
    location: str, index: Index, parts: Sequence[Any], numbers: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    storage, _ = open_storage(location)
    for number in numbers_of(numbers):
        yield from index.look_up(storage, parts[number], None)


def _number_keys(
    index: HashedIndex, numbers: npt.NDArray[np.int32], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        keys = batch.column(0)
        yield pa.RecordBatch.from_arrays([keys, pa.array(numbers[index.parts_of(keys)])], [RECORD_KEY, _NUMBER])


def _look_up_keys(
    location: str,
    index: HashedIndex,
    parts: Sequence[Any],
    numbers: npt.NDArray[np.int32],
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    storage, _ = open_storage(location)
    held = pa.Table.from_batches(batches, pa.schema([(RECORD_KEY, pa.string()), (_NUMBER, pa.int32())]))
    for part in np.flatnonzero(np.isin(numbers, held[_NUMBER].to_numpy())):
        keys = held.filter(pc.equal(held[_NUMBER], int(numbers[part])))[RECORD_KEY].combine_chunks()
        yield from index.look_up(storage, parts[int(part)], keys)


def _write(
    location: str,
    context: WriteContext,
    targets: Mapping[int, WriteTarget],
    keying: Keying,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Sorted rows with TARGET into files. An error of Lakeward is an outcome, and the task's last one."""
    storage, _ = open_storage(location)
    schema = handled_schema(keying.columns)
    attempt = _attempt_number(_task().taskAttemptId())
    for index, pieces in groupby(_by_target(batches), key=itemgetter(0)):
        rows = _Taken(pieces, schema)
        outcome: Done[TargetResult] | Failure
        try:
            result = write_target(storage, context, targets[index], rows, attempt)
            assert next(rows, None) is None, "a handle takes all rows"
            outcome = Done(index, result)
        except LakewardError as error:
            outcome = Failure(index, error)
        except Exception as error:
            mark(error, index)
            raise
        counted = rows.counted
        of_target = {"outcome": [pickle.dumps(outcome)], "rows": [counted.rows], "total": [str(counted.total)]}
        yield pa.RecordBatch.from_pydict(of_target, _OUTCOMES)
        if isinstance(outcome, Failure):
            return


def _attempt_number(of_spark: int) -> int:
    """Spark's number of a task's attempt, which is another one after a stage was begun again, too; with room behind it
    for a second go of a handle, whose number is `ATTEMPTS_MAX` more."""
    return of_spark // ATTEMPTS_MAX * 2 * ATTEMPTS_MAX + of_spark % ATTEMPTS_MAX


class _Taken(Iterator[pa.RecordBatch]):
    """The rows of a target as handles take them, counted as they are taken."""

    def __init__(self, pieces: Iterator[tuple[int, pa.RecordBatch]], schema: pa.Schema) -> None:
        self._pieces = pieces
        self._schema = schema
        self.counted = Counted()

    def __next__(self) -> pa.RecordBatch:
        _, piece = next(self._pieces)
        self.counted += count_rows(piece)
        return project(piece.select(self._schema.names), self._schema)


def _by_target(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    for batch in batches:
        targets = batch.column(TARGET).to_numpy()
        bounds = [0, *(np.flatnonzero(np.diff(targets)) + 1).tolist(), len(targets)]
        for start, end in pairwise(bounds):
            if end > start:
                yield int(targets[start]), batch.slice(start, end - start)


def _task() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "runs inside a Spark task"
    return context
