"""Publish files of the archived timeline, as Hudi's archiver does (layout 2).

    file of rows -> `manifest_<n+1>`, which names it -> `_version_` is deleted -> and created again, saying n + 1

Readers take what `_version_` names, and where it is missing the highest manifest: so the deletion is the moment of
publishing, and until then the rows are garbage. What a process left that died before it is not deleted to make room, as
Hudi does, but passed over: a manifest above the version by a higher number, a file of rows by a name whose range ends a
millisecond later. For no deletion asks who made the file that it takes:

    t0 we prove that we hold the lock, about to delete what a dead process left, and stop; t1 our lock runs out, another
    archiver puts its own by that name, publishes it, and takes the instants off the timeline; t2 we wake and delete it.

`_version_` is the exception, and says nothing that the highest manifest does not:

    t0 we prove that we hold the lock, and stop; t1 another archiver publishes; t2 we wake and delete its `_version_`:
    readers take the highest manifest, its own, which is right; t3 our fence fails, or we find one there already.

Touches: the history's folder, under the table lock, which the caller holds.
Keeps:   1. at every moment readers find a manifest whose files are all there and whole;
         2. what was published is read back before this says so;
         3. a file of rows is deleted only if no manifest that stays names it, and another file covers its range.
Source:  LSMTimelineWriter (Hudi 1.2).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from lakeward.base.errors import AttemptLost, BrokenFile, NotFound, OutcomeUnknown
from lakeward.base.paths import join
from lakeward.format.timeline.history import VERSION_FILE, HistoryFile, dump_manifest, manifest_name
from lakeward.protocol.creation import create_once
from lakeward.protocol.lock.table_lock import Fence
from lakeward.storage.storage import Storage
from lakeward.table.timeline.archived import History, load_history, load_manifest


def publish_history(
    storage: Storage,
    folder: str,
    seen: History,
    added: HistoryFile,
    content: bytes,
    *,
    merged: Collection[HistoryFile] = (),
    fence: Fence,
) -> History:
    """Add a file of rows. Returns the snapshot that has it. Raises `AttemptLost` where another archiver published.

    Args:
        seen: the newest snapshot, as it was read under this lock.
        added: the range of its rows, and their level.
        merged: files of the snapshot whose rows are in the added one.
    """
    added = _free_name(storage, folder, seen, added, content)
    number = max((seen.version, *seen.manifests)) + 1
    fence()
    storage.make_folder(folder)
    path = join(folder, added.name)
    create_once(storage, path, content)
    if storage.read(path) != content:
        raise OutcomeUnknown(
            f"{path} does not read back as it was written.",
            why="The storage returned other bytes than it was given.",
            remedy="Look at the file before anything else touches the table; nothing was deleted.",
        )
    sizes = {file: size for file, size in seen.sizes.items() if file not in merged} | {added: len(content)}
    fence()
    create_once(storage, join(folder, manifest_name(number)), dump_manifest(sizes))
    fence()
    storage.delete(join(folder, VERSION_FILE))
    fence()
    create_once(storage, join(folder, VERSION_FILE), str(number).encode())
    published = load_history(storage, folder)
    if (published.version, published.sizes) != (number, sizes):
        raise AttemptLost(
            f"Another archiver published in {folder} while we did.",
            why="The table lock was lost meanwhile.",
            remedy="Run the command again; no instant was taken off the timeline.",
        )
    # Below the version by now, where no archiver creates one any more.
    for garbage in seen.manifests:
        if garbage > seen.version:
            storage.delete(join(folder, manifest_name(garbage)))
    return replace(published, manifests=tuple(each for each in published.manifests if not seen.version < each < number))


def clean_history(storage: Storage, folder: str, seen: History, *, kept: int, fence: Fence) -> None:
    """Delete all manifests but the newest, and files of rows that none of those that stay names.

    Args:
        kept: how many manifests stay: so many publications long a reader may take for reading.
    """
    old, stays = seen.manifests[:-kept], seen.manifests[-kept:]
    if not old or seen.version not in stays:
        return
    try:
        needed = {file for number in stays for file in load_manifest(storage, folder, number)}
    except (BrokenFile, NotFound):
        return  # What it names cannot be known, so everything stays.
    fence()
    for number in old:
        storage.delete(join(folder, manifest_name(number)))
    for file in seen.present:
        if file not in needed and any(_covers(other, file) for other in seen.sizes):
            fence()
            storage.delete(join(folder, file.name))


def _free_name(storage: Storage, folder: str, seen: History, wanted: HistoryFile, content: bytes) -> HistoryFile:
    """The name, unless another file has it: one of the same content is from a process of Lakeward that died."""
    while wanted in seen.sizes or (wanted in seen.present and storage.read(join(folder, wanted.name)) != content):
        wanted = replace(wanted, last=str(int(wanted.last) + 1).zfill(len(wanted.last)))
    return wanted


def _covers(file: HistoryFile, other: HistoryFile) -> bool:
    return file != other and file.level >= other.level and file.first <= other.first and other.last <= file.last
