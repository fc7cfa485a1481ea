"""How the daemon keeps the indexes of a table: the section `index` of the configuration.

Touches: nothing.
"""

from __future__ import annotations

from lakeward.index.record.record_options import RecordOptions
from lakeward.protocol.section import Flag, Location, SettingsSection
from lakeward.services.service import TableRules


class RecordIndexSettings(SettingsSection):
    """Lakeward's record index, which stands below the table's `.hoodie` (`lakeward index build --type record`)."""

    location: Location | None = None
    """A folder of the same storage in which the index is kept instead, each table's in one of its own: where nothing
    may be written below the table."""

    @property
    def options(self) -> RecordOptions:
        """The place of the index."""
        return RecordOptions(self.location)


class IndexSettings(SettingsSection):
    """How the daemon keeps the indexes of a table: Lakeward's own are brought up to date, and these and Hudi's record
    index checked.
    """

    update: Flag = True
    """Lakeward's indexes that are there, below the table and in the store's database, and its cache of filters, are
    brought up to date. false: by `lakeward index update` alone, and `lakeward index tee` compares one on trial."""
    record: RecordIndexSettings = RecordIndexSettings()

    @property
    def record_index_location(self) -> str | None:
        return self.record.location


def record_options_of(table: TableRules) -> RecordOptions:
    """The place of Lakeward's record index of a table."""
    return table.section(IndexSettings).record.options


SECTION = IndexSettings
