"""The port to a store of entries outside of the table: PostgreSQL has it now, and another key-value store can.

An entry is a key and a commit, and says where that commit put the key, or that it is gone. The entries of a key stay
beside each other, a commit each, until the commits are settled: which of them is the answer, `external_index` decides
by the table's timeline. A store therefore knows nothing of timelines; it keeps what it is given, and says of a commit
whether it has all of it.

    begin -> put* -> finish    one commit, which is there once `finish` returned, and of which there is nothing before;
                               a commit that was there is replaced in that moment
    begin beside others        the same by a writer, which puts the entries of its own commit: it disturbs neither what
                               follows the table nor another writer, and none of them disturbs it
    forget                     it is not there any more
    settle                     it will never be forgotten: of its keys no older settled entry is kept, and no tombstone

Touches: nothing; what is kept where, the implementations say.
Source:  RFC-08; SparkHoodieHBaseIndex (Hudi 1.2)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final, Protocol

import pyarrow as pa

from lakeward.index.location import LOCATIONS

SETTLED: Final = "_lakeward_settled"

ENTRIES: Final = pa.schema([*LOCATIONS, pa.field(SETTLED, pa.bool_())])


class EntryStore(Protocol):
    """The entries of one index. Used by the process that plans and commits, never by tasks of it elsewhere: these have
    no credentials."""

    @property
    def is_global(self) -> bool:
        """Whether a key has one place in all of the table; otherwise one in each partition."""

    def commits(self) -> tuple[str | None, Mapping[str, str | None]]:
        """The completion time up to which commits are settled, and those that are whole and not settled, each with its
        completion time, where that was known when it was written."""

    def begin(self, instant: str, *, beside_others: bool = False) -> int:
        """Another try at a commit; what tries before it left is no entry and goes.

        Args:
            beside_others: the commit is the caller's own, and only earlier tries at it end by this one; otherwise all
                do but those of writers.
        """

    def begun_beside_others(self) -> Collection[str]:
        """The commits of writers of which there are tries that did not finish."""

    def put(self, attempt: int, changes: pa.RecordBatch) -> None:
        """Store entries of the attempt, as `LOCATIONS` has them. Idempotent."""

    def finish(self, attempt: int, completed: str | None) -> None: ...

    def finish_settled(self, attempt: int, completed: str) -> None:
        """It is never forgotten, and the first settled one. Nothing that is not settled may be there."""

    def forget(self, instant: str) -> None: ...

    def settle(self, instant: str, completed: str) -> None: ...

    def get(self, keys: pa.Array) -> pa.RecordBatch:
        """All entries of these keys, each of which is named once, of whole and of settled commits, as the columns of
        `ENTRIES`, in no order."""

    def scan(self) -> Iterator[pa.RecordBatch]:
        """All entries, by key; those of one key come in one batch."""
