"""How the daemon keeps the indexes of a table: the section `index` of the configuration.

Touches: nothing.
"""

from __future__ import annotations

from typing import Literal

from lakeward.index.record.record_options import LookupMode, LookupOptions, RecordOptions
from lakeward.index.update_choice import UpdateOptions
from lakeward.protocol.section import Count, Duration, Flag, Location, SettingsSection, Share, SizeOrOff
from lakeward.services.service import TableRules


class RecordLookupSettings(SettingsSection):
    """How keys are looked up in the files of Lakeward's record index."""

    mode: Literal["dynamic", "seek", "scan"] = "dynamic"
    """`seek` reads the blocks that may have a key, `scan` all between the first and the last of them; `dynamic`: one or
    the other for each file, by the share of its entries that is looked up."""
    dynamic: Share = 0.35
    """Keys that are looked up by entries of the file, from which on `dynamic` scans."""


class RecordIndexSettings(SettingsSection):
    """Lakeward's record index, which stands below the table's `.hoodie` (`lakeward index build --type record`)."""

    location: Location | None = None
    """A folder of the same storage in which the index is kept instead, each table's in one of its own: where nothing
    may be written below the table."""
    buckets: Count | None = None
    """How many buckets an index is made with; not given: a million keys each, and a third more for growth. It does not
    change until the index is rebuilt.
    """
    hash: Literal["java-string", "lakeward-64"] = "java-string"
    """Which hash spreads keys over the buckets; likewise."""
    scaling: Literal["group", "seal"] = "group"
    """What is done when buckets are full: `group` opens a further group of as many buckets as there are, `seal` lets a
    full bucket go on in another file group; docs/decisions/0079 contrasts them. Likewise."""
    entries_max: Count = 1_000_000
    """Entries with which a bucket is full. Likewise."""
    lookup: RecordLookupSettings = RecordLookupSettings()

    @property
    def options(self) -> RecordOptions:
        """The place of the index, and how it is asked."""
        return RecordOptions(self.location, LookupOptions(LookupMode(self.lookup.mode), self.lookup.dynamic))


class IndexSettings(SettingsSection):
    """How the daemon keeps the indexes of a table: Lakeward's own are brought up to date, and these and Hudi's record
    index checked.
    """

    update: Flag = True
    """Lakeward's indexes that are there, below the table and in the store's database, and its cache of filters, are
    brought up to date. false: by `lakeward index update` alone, and `lakeward index tee` compares one on trial."""
    update_after: Duration = 60.0
    """So long the first of the commits that an index lacks may wait, so that one update takes several in; lookups cover
    them until then."""
    update_after_commits: Count = 8
    """Once an index lacks so many it is brought up to date at once; likewise once they wrote 64 MiB."""
    verify_every: Duration = 24 * 3600.0
    """Between two checks of an index, at times that are spread over the tables."""
    verify_merged: SizeOrOff = 16 * 1024**3
    """Slices with logs are merged for their keys, up to so many bytes a check; which ones, is chosen again each time.
    `none`: all of them are."""
    verify_entries: Count = 20_000_000
    """No further part of an index is read once so many of its entries were; which parts, is chosen again each time."""
    verify_keys: Count = 4603
    """Rows that are drawn and looked up, and entries that are drawn and looked for: with 4603 of each, however large
    the table is, an index of which one in a thousand is wrong is found with a confidence of 99%;
    docs/services/index-judges.md has the formula."""
    record: RecordIndexSettings = RecordIndexSettings()

    @property
    def update_options(self) -> UpdateOptions:
        """When an index is brought up to date."""
        return UpdateOptions(self.update, self.update_after, self.update_after_commits)


def record_options_of(table: TableRules) -> RecordOptions:
    """The place of Lakeward's record index of a table, and how it is asked."""
    return table.section(IndexSettings).record.options


SECTION = IndexSettings
