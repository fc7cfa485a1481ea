"""The part of a write in an index of Lakeward's by which it goes: what it does to keys is there with its commit.

    work         targets say which keys they gained and which they lost (`handles/key_changes`)
    no lock      the index takes that in, under the instant of the write, and does not count it: the instant is pending
    lock         the commit is completed; with it, and by nothing else, the entries count
    failure      once the instant is on the timeline no more, the index forgets it

An index is changed by others while a write is at work, merged, grown or rebuilt, and what the write had opened may
be gone. Then it is opened again, and asked or written again, a few times.

    t10 the entries are there; t20 the process dies. The instant is rolled back by the writer that comes next,
    Lakeward's or Hudi's, which knows of no index; the entries never count, and `tidy` removes them.

So no log of what was begun is needed: the timeline of the table is it. Of an index that has the commit nothing more is
asked: the next lookup does not read the commit's files.

Updates in place move no key and are not written, nor are the keys of file groups that were replaced: a location whose
file group is not live is none.

Touches: the index; reads what the targets said, from the attempt's folder.
Keeps:   1. entries are there, whole, before the commit that they belong to can be completed;
         2. the index forgets a write only once its instant is on the timeline no more: of one that is complete after
            all it would lose the keys;
         3. where it cannot be known from what the targets say which keys went, the index gets nothing: it is behind
            by this commit, which lookups cover;
         4. of an index that moved a write asks, or updates, the next one, `AGAIN_MAX` times, and then fails.
Memory:  one batch of changes.
See:     docs/decisions/0083-the-writer-and-its-index.md
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final, TypeVar

import pyarrow as pa

from lakeward.base.errors import IndexMoved, LakewardError
from lakeward.format.avro.schema import block_schema
from lakeward.index.index import Indexed, WritableIndex
from lakeward.index.location import LOCATIONS
from lakeward.merge.rules.merge_rules import IS_DELETED_FIELD, MergeMode
from lakeward.protocol.metadata.key_changes import ChangedKeys, read_changed_keys
from lakeward.read.table_rules import merge_rules
from lakeward.storage.storage import Storage
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline.timeline import Timeline
from lakeward.write.request import WriteOperation, WriteRequest

AGAIN_MAX: Final = 5
"""How often an index that moved is opened again."""

T = TypeVar("T")


def while_index_moves(act: Callable[[], T]) -> T:
    """What this returns, which opens an index and reads or writes it; it is done again where that was another one by
    then. Raises `IndexMoved` where that goes on."""
    for _ in range(AGAIN_MAX):
        try:
            return act()
        except IndexMoved:
            continue
    return act()


class OwnIndexPart:
    """The part of one try at a write."""

    def __init__(self, open_index: Callable[[], WritableIndex], instant: str) -> None:
        self._open_index = open_index
        self._instant = instant
        self._is_entered = False

    def enter(
        self,
        storage: Storage,
        changed: Sequence[ChangedKeys],
        *,
        undone: Collection[str],
        knows_its_keys: Callable[[WritableIndex], bool],
    ) -> None:
        """Put in what the write did to keys. Raises what the index raises, and `BrokenFile` and `NotFound`.

        Args:
            undone: dead writes that the index is to forget first.
            knows_its_keys: whether to this index the targets say exactly which keys went.
        """
        while_index_moves(lambda: self._enter(storage, changed, undone, knows_its_keys))

    def withdraw(self, error: BaseException, load_timeline: Callable[[], Timeline]) -> None:
        """Have the index forget a write that failed with this error, where nothing of it is left on the timeline."""
        if not self._is_entered:
            return
        try:
            if load_timeline().find(self._instant) is None:
                while_index_moves(lambda: self._open_index().rollback(self._instant))
        except (LakewardError, OSError) as second:
            error.add_note(
                f"The index has entries of {self._instant} still ({second}); they count for nothing, and `lakeward "
                "index update` removes them."
            )

    def _enter(
        self,
        storage: Storage,
        changed: Sequence[ChangedKeys],
        undone: Collection[str],
        knows_its_keys: Callable[[WritableIndex], bool],
    ) -> None:
        index = self._open_index()
        for instant in undone:
            index.rollback(instant)
        # Into one that is not built yet the build puts everything.
        if index.indexed() != Indexed() and knows_its_keys(index):
            self._is_entered = True
            index.update(self._instant, _locations(storage, changed, self._instant), completed=None)


def knows_its_keys(snapshot: TableSnapshot, request: WriteRequest, schema: str, *, is_global: bool) -> bool:
    """Whether the targets of a write say exactly which keys went.

    A log takes a delete without a look at what it lies on. By event time one that a column asks for may lose to the
    stored row, and its key has not gone. By an index that is global these are held against the stored rows first
    (`tagging/tagging.OnePlace.watches_deletes`); by one of a partition they are not.

    Args:
        schema: Avro JSON of the rows that are written.
    """
    rules = merge_rules(snapshot)
    if is_global or request.operation is not WriteOperation.UPSERT:
        return True
    if not snapshot.config.is_merge_on_read or rules.mode is not MergeMode.EVENT_TIME_ORDERING:
        return True
    columns = block_schema(schema, where="the rows").names
    return IS_DELETED_FIELD not in columns and rules.delete_field not in columns


def learns_beside(snapshot: TableSnapshot, request: WriteRequest) -> bool:
    """Whether an index by which the write does not go can be known of it.

    By keys of base files alone a key that a log deleted is found still: a row that brings it back counts as an update,
    and no target says that the key came.
    """
    return not (snapshot.config.is_merge_on_read and request.index.finds_keys_in_base_files)


def _locations(storage: Storage, changed: Iterable[ChangedKeys], instant: str) -> Iterator[pa.RecordBatch]:
    for each in changed:
        for keys, file_ids in read_changed_keys(storage, each):
            columns = [keys, pa.repeat(each.partition_path, len(keys)), file_ids]
            at = pa.repeat(pa.scalar(instant, pa.string()), len(keys))
            yield pa.RecordBatch.from_arrays([*columns, at], schema=LOCATIONS)
