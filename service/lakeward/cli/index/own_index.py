"""An index of Lakeward's own, of either type, as the verbs about it handle it: made, opened, rebuilt, dropped.

Touches: nothing itself; where the index is, `database_index` and `record_index` know.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from lakeward.base.errors import Refused, UsageError
from lakeward.cli.index.database_index import DatabasePlace, index_database
from lakeward.cli.index.record_index import RecordPlace
from lakeward.index.index_type import OWN_TYPES, IndexType
from lakeward.index.tee import read_tee

if TYPE_CHECKING:
    from lakeward.cli.configured_table import ConfiguredTable
    from lakeward.index.index import OwnIndex
    from lakeward.table.snapshot import TableSnapshot


class OwnIndexPlace(Protocol):
    @property
    def build_folder(self) -> str:
        """The folder where a build keeps what its tasks read, that of one beside it, too."""

    def is_there(self) -> bool: ...

    def create(self, *, is_global: bool) -> None:
        """An index without entries; one that was created, and has none, may be there. Raises an error of Lakeward where
        another one is.
        """

    def open(self, snapshot: TableSnapshot) -> OwnIndex:
        """Raises `UsageError` or `Refused` where there is none."""

    def drop(self) -> bool:
        """Leave nothing of it; False where there was none."""

    def beside(self) -> OwnIndexPlace:
        """The place where another one is built beside it; what an attempt that was stopped left there goes."""

    def take_place(self) -> None:
        """Let one that `beside` gave be the index from now on, whether there was one or not, in one step."""


@contextmanager
def own_index(
    opened: ConfiguredTable, kind: IndexType, url: str | None, rate: float | None = None
) -> Iterator[OwnIndexPlace]:
    """The place of the table's index of that type. Raises `UsageError` for a type that is not Lakeward's own."""
    if kind is IndexType.POSTGRES:
        with index_database(opened, url) as database:
            yield DatabasePlace(opened, database, rate)
        return
    if kind is not IndexType.RECORD:
        raise UsageError(
            f"The {kind} index is not built by Lakeward.",
            why="Hudi's writers maintain it, or it is the base files themselves.",
            remedy=f"Name --type {', '.join(OWN_TYPES)} or bloom; `lakeward index list` shows what the table has.",
        )

    yield RecordPlace.of(opened)


def check_not_chosen(opened: ConfiguredTable, kind: IndexType) -> None:
    """Raises `Refused` where the table's writes use that index, or compare it with the one that they use."""
    tee = read_tee(opened.storage, opened.base_path)
    if kind in (tee.primary, tee.shadow):
        raise Refused(
            f"The {kind} index is not dropped.",
            why="It was chosen for the table's writes (`lakeward index tee`), which would fail without it.",
            remedy="Take the choice back first: `lakeward index tee TABLE --forget`.",
        )
