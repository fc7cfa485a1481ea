"""What a table's version allows. The other modules ask for an ability by its name and compare no number.

    version          6       8       9       10
    timeline layout  1       2       2       2
    writable                 yes     yes     yes
    compactable      yes     yes     yes     yes
    logs of one write        yes     yes     yes
    merge mode       payload stored  stored  stored
     else by                 payload fields  fields
    log compaction                   yes     yes
    typed statistics                 yes     yes
    several ordering fields          yes     yes
    merge properties                 yes     yes
    later conflict rules             yes     yes
    change capture                   yes     yes
    deletes ordered by text          yes     yes
    hybrid plans                             yes
    native logs                              yes
    meta fields mode                         yes

Touches: nothing.
Keeps:   1. a version that this release does not know is not writable, and neither is a table without one;
         2. an ability (`has_…`) of one version is one of all later versions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_RELEASED: Final = (8, 9)
_WRITABLE: Final = (*_RELEASED, 10)
_COMPACTABLE: Final = (6, *_WRITABLE)

WRITABLE_VERSIONS: Final = "8, 9 and 10"
"""The versions that this release changes, as messages name them."""

RELEASED_VERSIONS: Final = " and ".join(map(str, _RELEASED))
"""The versions that this release changes and a release of Hudi writes."""

COMPACTABLE_VERSIONS: Final = "6, 8, 9 and 10"
"""The versions of which it compacts and verifies tables."""

_FIRST_WITH_LOG_COMPACTION: Final = 9

NEWEST_RELEASED: Final = _RELEASED[-1]
"""The version of a new table where nothing else is asked for."""

CHANGES: Final = frozenset({(9, 10), (10, 9)})
"""The changes of a table's version that this release makes, from and to."""

KNOWN: Final = range(_COMPACTABLE[0], _WRITABLE[-1] + 1)
"""The versions that Hudi's releases of this time go between."""

NAMES: Final = {6: "SIX", 8: "EIGHT", 9: "NINE"}
"""The versions as Hudi's procedures name them."""

LOG_COMPACTION_VERSION: Final = str(_FIRST_WITH_LOG_COMPACTION)
"""The first version with log compaction, as messages name it."""


@dataclass(frozen=True, slots=True)
class TableVersion:
    """The number in `hoodie.table.version`; None where the property is missing or no number."""

    number: int | None

    def __str__(self) -> str:
        return str(self.number)

    @property
    def timeline_layout(self) -> int:
        """The layout of the timeline, which the table's own property may contradict after a broken upgrade."""
        return 2 if self._is_at_least(8) else 1

    @property
    def is_writable(self) -> bool:
        """This release changes tables of the version, and reads and writes their metadata tables."""
        return self.number in _WRITABLE

    @property
    def is_compactable(self) -> bool:
        """This release compacts and verifies tables of the version, whatever else it does to them."""
        return self.number in _COMPACTABLE

    @property
    def is_too_new(self) -> bool:
        """A later release may write it; an older version is Hudi's to upgrade."""
        return self._is_at_least(_WRITABLE[-1] + 1)

    @property
    def has_logs_of_one_write(self) -> bool:
        """A log carries the instant of the write that made it, and no other write appends to it.

        Before, it carries that of its slice's base file, or of the plan that opened the slice; so what a write left is
        seen only inside of the file, and a plan that writers have named their logs by can never be removed.
        """
        return self._is_at_least(8)

    @property
    def has_stored_merge_mode(self) -> bool:
        """`hoodie.record.merge.mode` counts where it is set. Before, the payload class decides."""
        return self._is_at_least(8)

    @property
    def has_inferred_merge_mode(self) -> bool:
        """The ordering fields decide where no mode is stored; payload class and merge strategy count for nothing."""
        return self._is_at_least(9)

    @property
    def checks_merge_strategy(self) -> bool:
        """Hudi opens no table whose merge strategy contradicts its merge mode."""
        return self.has_stored_merge_mode and not self.has_inferred_merge_mode

    @property
    def widens_floats_alike(self) -> bool:
        """Readers convert a float to the double with the same digits, wherever it lies.

        Those of Hudi 1.0 and older make the nearest one of it in lists and maps of Parquet files, and in Avro logs in
        which no column has a change that Avro does not know (docs/decisions/0049).
        """
        return self._is_at_least(9)

    @property
    def has_secondary_indexes(self) -> bool:
        """A secondary index may be kept over our files.

        Hudi 1.0 writes its secondary indexes by a reader that wants each column to be required where the schema says
        so, also inside of others, of which our files do not say it.
        """
        return self._is_at_least(9)

    @property
    def has_typed_stats(self) -> bool:
        """Column statistics are of version 2 where no index definition says otherwise."""
        return self._is_at_least(9)

    @property
    def has_log_compaction(self) -> bool:
        """Released readers of older tables read sources and output of a log compaction both, by default."""
        return self._is_at_least(_FIRST_WITH_LOG_COMPACTION)

    @property
    def has_several_ordering_fields(self) -> bool:
        """Hudi 1.0 takes a list of ordering fields for the name of one."""
        return self._is_at_least(9)

    @property
    def has_merge_properties(self) -> bool:
        """What payload classes did before is shown by the merge mode and by properties."""
        return self._is_at_least(9)

    @property
    def has_later_conflict_rules(self) -> bool:
        """No writer of Hudi 1.0 can write it, which takes a compaction for a conflict."""
        return self._is_at_least(9)

    @property
    def has_change_capture(self) -> bool:
        """What a compaction writes of changes is known. Hudi 1.0 does it in other code, which was not tried."""
        return self._is_at_least(9)

    @property
    def has_deletes_ordered_by_text(self) -> bool:
        """Readers compare the text by which a delete is ordered with that of a row.

        To those of Hudi 1.0 it is of another class than a row's, and so every delete wins over the rows before it.
        """
        return self._is_at_least(9)

    @property
    def begins_in_utc(self) -> bool:
        """The instants of a new table are in UTC. Hudi 1.0.1 would write completion times of its own zone into such a
        table; 1.0.0 was not tried.
        """
        return self._is_at_least(9)

    @property
    def has_slash_dates(self) -> bool:
        """Partition paths may have dates with slashes. Hudi before 1.1 would name other partitions."""
        return self._is_at_least(9)

    @property
    def has_global_record_index_name(self) -> bool:
        """Writers know the record index of the metadata table as `GLOBAL_RECORD_LEVEL_INDEX`."""
        return self._is_at_least(9)

    @property
    def may_fail_over_metadata_deletes(self) -> bool:
        """A process of Hudi 1.0.2 writes it, which may fail to read deletes in the metadata table."""
        return self._is_at_least(8) and not self._is_at_least(9)

    @property
    def has_hybrid_plans(self) -> bool:
        """One plan may hold FULL and LOG operations, and readers rank a LOG output by its own instant."""
        return self._is_at_least(10)

    @property
    def is_released(self) -> bool:
        """A release of Hudi writes tables of this version, and so does what a message says that Hudi's writers do."""
        return not self._is_at_least(10)

    @property
    def has_native_logs(self) -> bool:
        """Logs may be files of the base files' format. To readers of older tables these are base files."""
        return self._is_at_least(10)

    @property
    def has_meta_fields_mode(self) -> bool:
        """A table says by `hoodie.meta.fields.mode` which of its meta columns have values."""
        return self._is_at_least(10)

    def _is_at_least(self, number: int) -> bool:
        return self.number is not None and self.number >= number
