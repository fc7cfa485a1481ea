"""How much of its table the cache of filters has: the one definition, for the list of indexes, for pages and gauges,
and for the choice when it is brought up to date.

What it lacks is what lookups ask that it has no entry of. So the files of a commit count, and none that writes what the
cache is not to have, such as logs; and what is broken of it is lacking again, whenever that came. Files that could not
be read when it was brought up to date are told apart: to do so again would change nothing.

Touches: storage, reading: the manifest and the tables of entries, one after the other.
Keeps:   a file that lookups ask is one that the cache has, one that it lacks, or one that could not be read.
Memory:  the paths of the table's files, and one table of entries.
See:     docs/decisions/0084-the-daemon-keeps-indexes-at-pace.md
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.base.clock import Clock
from lakeward.base.errors import BrokenFile
from lakeward.format.timeline.instant import comparable_time
from lakeward.index.bloom.cache_file import entry_names
from lakeward.index.bloom.cache_manifest import CacheManifest, cache_folder, find_cache
from lakeward.index.bloom.data_files import DataFile, data_files
from lakeward.index.key_changes.table_commits import Staleness, check_commits_are_known, seconds_since
from lakeward.storage.storage import Storage
from lakeward.table.snapshot import TableSnapshot


@dataclass(frozen=True, slots=True)
class CacheCoverage:
    bases: int
    """Base files of the table that it has."""
    of_bases: int
    logs: int
    """The same of logs, where it is to have these."""
    of_logs: int
    behind: Staleness
    """The commits of whose files it lacks any, and what these files have."""
    unread: int = 0
    """Files beside those, which could not be read when it was brought up to date."""
    gone: int = 0
    """Entries of files that are gone."""
    broken: int = 0
    """Files of the cache whose entries cannot be read."""
    held_logs: frozenset[tuple[str, int]] = field(default=frozenset(), repr=False)
    """Path and size of each log that it has."""


def find_coverage(
    storage: Storage, snapshot: TableSnapshot, *, clock: Clock
) -> tuple[CacheManifest, CacheCoverage] | None:
    """The cache of the table, as of the snapshot; None where there is none, or it was not built yet. Raises
    `BrokenFile` and `Unsupported` for its manifest, and `Refused` for a table without keys in its base files, or of
    which Lakeward keeps no indexes."""
    folder = cache_folder(snapshot.base_path)
    manifest = find_cache(storage, folder)
    if manifest is None or not manifest.is_built:
        return None
    check_commits_are_known(snapshot)
    files = data_files(snapshot, with_logs=manifest.with_logs)
    paths, sizes = [file.path for file in files], [file.size for file in files]
    names = entry_names(pa.array(paths, pa.string()), pa.array(sizes, pa.int64()))
    is_held = np.zeros(len(files), np.bool_)
    entries = broken = 0
    for each in manifest.files:
        try:
            found = each.read_entries(storage, folder)
        except BrokenFile:
            broken += 1
            continue
        places = pc.index_in(entry_names(found.column("path"), found.column("size")), value_set=names)
        is_held[places.drop_null().to_numpy()] = True
        entries += len(found)
    held = [file for file, is_there in zip(files, is_held, strict=True) if is_there]
    missing = [file for file, is_there in zip(files, is_held, strict=True) if not is_there]
    unread = set(manifest.unread)
    lacking = [file for file in missing if (file.path, file.size) not in unread]
    held_logs = frozenset((file.path, file.size) for file in held if file.is_log)
    logs, of_logs = len(held_logs), sum(file.is_log for file in files)
    return manifest, CacheCoverage(
        len(held) - logs,
        len(files) - of_logs,
        logs,
        of_logs,
        _behind(snapshot, lacking, clock),
        unread=len(missing) - len(lacking),
        gone=entries - len(held),
        broken=broken,
        held_logs=held_logs,
    )


def _behind(snapshot: TableSnapshot, lacking: Sequence[DataFile], clock: Clock) -> Staleness:
    if not lacking:
        return Staleness()
    instants = {file.instant for file in lacking}
    first = min(map(snapshot.timeline.visible_at, instants), key=comparable_time)
    seconds = seconds_since(snapshot, first, clock=clock)
    return Staleness(len(instants), sum(file.size for file in lacking), seconds)
