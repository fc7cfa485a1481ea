"""Logs of buckets of the record index: a small delta is appended to its bucket's log, as a block that holds an HFile.

    under the lock of the index: newest manifest -> where each log ends by it -> cut -> append -> next manifest

The manifest's (log, offset, size) is the commit: what lies behind the last one that it names is of an attempt that
died, and is cut before the next append; no lookup reads beyond. A log that no manifest names any more is never
appended to, for it may be deleted.

    t0 A rolls the last block of a log back; a lookup still reads by the manifest before that. t1 B appends: bytes
    behind the end by the newest manifest are cut only where no manifest that is there names them.

Touches: logs in the folder of the index, and its lock.
Keeps:   1. no byte that a manifest names is cut or written over;
         2. a block that another process's manifest names since is not named twice, nor one of a log that is named no
            more;
         3. blocks are those of Hudi's log format.
See:     docs/decisions/0162-how-updates-write-buckets.md
Source:  RFC-08, inline HFiles
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Final

from lakeward.base.errors import BrokenFile, IndexMoved, NotFound
from lakeward.base.paths import join
from lakeward.format.log.block import BlockType, HeaderKey
from lakeward.format.log.log_writer import BLOCK_END_BYTES, block_end, block_head
from lakeward.index.manifest_form import DATA_FOLDER, list_manifests
from lakeward.index.record.record_file import IndexGroup, RecordFile, log_path
from lakeward.index.record.record_manifest import RECORD_FORM, RecordManifest
from lakeward.storage.storage import AppendingStorage, Storage

ENTRIES_MAX: Final = 30_000
"""A delta of more entries is a file of its own (0162)."""
UPDATE_ENTRIES_MAX: Final = 1_000_000
"""The deltas of an update are held until they are appended, so that larger updates write files."""
LOG_BYTES_MAX: Final = 8 * 1024 * 1024
"""A log of this size gets no further block: its bytes stay until the last of its deltas is merged."""
_LOCK: Final = "append.lock"
_SCHEMA: Final = '"bytes"'


def are_small(entries: int, buckets: int) -> bool:
    """Whether an update of so many entries goes into logs.

    Args:
        buckets: of the newest group.
    """
    return 0 < entries <= min(UPDATE_ENTRIES_MAX, ENTRIES_MAX * min(buckets, entries))


@dataclass(slots=True)
class BucketLogs:
    """The logs that this process alone appends to, for as long as the lock is held."""

    storage: AppendingStorage
    folder: str
    newest: RecordManifest
    made: set[str] = field(default_factory=set)
    """The logs that begin with what was appended."""

    def append(self, of: IndexGroup, instant: str, content: bytes) -> tuple[str, int]:
        """(the log's path, where the content begins). Raises `BrokenFile` for a log that is cut short."""
        head = block_head(
            BlockType.HFILE_DATA, {HeaderKey.INSTANT_TIME: instant, HeaderKey.SCHEMA: _SCHEMA}, len(content)
        )
        block = head + content + block_end(len(head) + len(content))
        path, end = self._open_log(of)
        if path is None:
            path = log_path(of, number=self.newest.number, token=token_hex(4), instant=instant)
            self.made.add(path)
            self.storage.make_folder(join(self.folder, DATA_FOLDER))
            with self.storage.open_output(join(self.folder, path)) as sink:
                sink.write(block)
        else:
            self.storage.append(join(self.folder, path), block, at=end)
        return path, end + len(head)

    def check(self, newest: RecordManifest, files: Iterable[RecordFile]) -> None:
        """Raises `IndexMoved` where the manifest upon which these files come names their bytes already, or one of their
        logs no more."""
        if newest.number < self.newest.number:
            return  # there is a later one, so that none is published upon this one
        ends: dict[str, int] = {}
        for file in newest.files:
            ends[file.path] = max(ends.get(file.path, 0), _end_of(file))
        for file in files:
            if file.is_in_log and file.path not in self.made and not 0 < ends.get(file.path, 0) <= file.offset:
                raise IndexMoved(
                    "The record index is not changed: another process was faster.",
                    why=f"It merged the deltas of the log {file.path} meanwhile, or appended to it.",
                    remedy="Run the command again; what was indexed stays.",
                )

    def _open_log(self, of: IndexGroup) -> tuple[str | None, int]:
        """The log of the file group that is appended to, and where; none where there is to be another one."""
        found = max((f for f in self.newest.files if f.of == of and f.is_in_log), key=_end_of, default=None)
        if found is None or _end_of(found) >= LOG_BYTES_MAX:
            return None, 0
        end = _log_end(self.newest, found.path)
        status = self.storage.stat(join(self.folder, found.path))
        if status is not None and status.size > end:
            end = max([end, *(_log_end(each, found.path) for each in self._kept())])
        return found.path, end

    def _kept(self) -> Iterator[RecordManifest]:
        for number in list_manifests(self.storage, self.folder):
            try:
                yield RECORD_FORM.read(self.storage, self.folder, number)
            except (NotFound, BrokenFile):
                continue  # no lookup can begin with it


@contextmanager
def logs_to_append(storage: Storage, folder: str) -> Iterator[BucketLogs | None]:
    """The logs of the index, under its lock; None where files do not grow, or another process has the lock."""
    if not isinstance(storage, AppendingStorage):
        yield None
        return
    with ExitStack() as held:
        try:
            is_held = held.enter_context(storage.try_lock(join(folder, _LOCK)))
        except NotFound:
            is_held = False  # the index was built again or dropped, which the publication finds
        newest = RECORD_FORM.read_newest(storage, folder) if is_held else None
        yield None if newest is None else BucketLogs(storage, folder, newest)


def _end_of(file: RecordFile) -> int:
    return file.offset + file.size + BLOCK_END_BYTES


def _log_end(manifest: RecordManifest, path: str) -> int:
    return max((_end_of(file) for file in manifest.files if file.path == path), default=0)
