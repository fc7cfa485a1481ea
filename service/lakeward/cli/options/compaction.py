"""How a command services its table: as the configuration says, under the locks that its options name.

Touches: nothing.
"""

from __future__ import annotations

from lakeward.cli.configured_table import ConfiguredTable
from lakeward.config.settings import LockSettings, Writers
from lakeward.protocol.options import CompactionOptions
from lakeward.table.listing import listing_source


def compaction_options(opened: ConfiguredTable, locks: LockSettings, *, timezone: str | None) -> CompactionOptions:
    """What the configuration says of the table; a command replaces what its own options say otherwise.

    Args:
        timezone: as `--timezone` has it.
    """
    table = opened.table
    return CompactionOptions(
        writers_stopped=locks.writers is Writers.STOPPED,
        lock=locks.options,
        yielding=locks.yielding,
        silent_after=table.silent_after,
        timezone=timezone or table.timezone,
        listing=listing_source(opened.base_path, table.listing),
        codec=table.codec.value,
        bloom_bytes_max=table.bloom_filter_max,
        verify=table.verify,
        memory_bytes=table.memory,
    )
