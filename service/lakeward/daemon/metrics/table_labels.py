"""Which tables have labels of their own in a scrape, and which of them all series.

A table has a dozen series of its own: the few that say how far behind it is, and each other one that an alert watches,
while it says something. The tables that an operator named have all of them. Prometheus keeps every series that it ever
saw, so both kinds have a cap.

Touches: nothing. Methods may be called from any thread.
Keeps:   1. a table keeps its label until it is not watched any more;
         2. there are never more labels than the caps say, whatever is watched.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lakeward.base.printable import printable

OTHER = "other"
"""The label of what has none of its own."""

TABLES_MAX = 5_000
"""Tables with a label of their own."""

WHOLE_TABLES_MAX = 200
"""Tables that have all series."""


@dataclass(frozen=True, slots=True)
class LabelChanges:
    """What `TableLabels.keep` found."""

    added: tuple[str, ...]
    """Labels that have all series from now on, `other` among them where it stands for something."""
    gone: tuple[str, ...]
    """Labels of tables that are not watched any more, or have only few series from now on."""


class TableLabels:
    def __init__(self, *, tables_max: int = TABLES_MAX, whole_max: int = WHOLE_TABLES_MAX) -> None:
        self._max = tables_max
        self._whole_max = whole_max
        self._is_chosen: Callable[[str, str], bool] = lambda name, label: True
        self._own: dict[str, str] = {}
        self._whole: set[str] = set()
        self._names: Mapping[str, str] = {}
        self._prepared: set[str] = set()
        self._lock = threading.Lock()

    def choose(self, is_chosen: Callable[[str, str], bool]) -> None:
        """From now on tables have all series if this says so of their name and their short name."""
        with self._lock:
            self._is_chosen = is_chosen
            self._whole = set()
            self._fill()

    @property
    def names(self) -> Mapping[str, str]:
        """The watched tables, as `keep` heard of them."""
        return self._names

    def of(self, table: str) -> str:
        """The table's short name, or `other` beyond the cap."""
        with self._lock:
            return self._of(table)

    def of_whole(self, table: str) -> str:
        """The same for a series that only tables with all of them have; `other` for the rest."""
        with self._lock:
            label = self._of(table)
            return label if table in self._whole else OTHER

    def keep(self, tables: Mapping[str, str]) -> LabelChanges:
        """These are watched, by their names, each with its short name."""
        with self._lock:
            self._names = dict(tables)
            gone = {self._own.pop(table) for table in self._own.keys() - tables.keys()}
            self._whole &= self._own.keys()
            for table in tables:
                self._of(table)
            if gone:
                self._fill()
            prepared = {self._own[table] for table in self._whole}
            if len(self._whole) < len(tables):
                prepared.add(OTHER)
            changes = LabelChanges(
                tuple(sorted(prepared - self._prepared)), tuple(sorted((gone | self._prepared) - prepared - {OTHER}))
            )
            self._prepared = prepared
            return changes

    def _of(self, table: str) -> str:
        if table not in self._own and len(self._own) < self._max:
            label = self._own[table] = printable(self._names.get(table, table))
            if len(self._whole) < self._whole_max and self._is_chosen(table, label):
                self._whole.add(table)
        return self._own.get(table, OTHER)

    def _fill(self) -> None:
        """Tables that have all series as well, as long as there is room."""
        for table, label in self._own.items():
            if len(self._whole) >= self._whole_max:
                break
            if self._is_chosen(table, label):
                self._whole.add(table)
