"""Which files of a table still hold keys, and until when: each file that its base path has is looked at.

    list all files -> look into each -> list again, until a listing brings nothing new
                   -> which keys the newest slices still have as rows -> why each file is there

The timeline, the metadata table, the quarantine and the indexes name no file that such a listing does not have, but for
an index outside of the table: files of one at a configured location are listed and looked at like those of the table,
and a server that has one is asked for its keys (`outside_index`).

Touches: the table, reading: every file below its base path; newest slices that have a key, merged; the folders and
         servers of indexes outside of it that are named, reading.
Keeps:   1. a file that the listing has is looked at, or named as unread with the reason;
         2. a key that a query finds is live, and never counts as deleted;
         3. files that came while it looked are looked at as well, or it says that writers were faster;
         4. no key is in what it says: one that a path or an error has is called by its line.
Memory:  a mark for each pair of a file and a key that it holds, and what looking into one file takes.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from lakeward.base.errors import LakewardError, NotFound
from lakeward.base.quantities import format_count
from lakeward.format.file_name import HFILE, parse_any_data_file, parse_any_log, parse_base_file
from lakeward.format.timeline.instant import comparable_time
from lakeward.read.newest_slice import newest_slice, table_reading
from lakeward.read.slice_keys import slice_keys
from lakeward.services.together.erasure.file_contents import FileContents, FileReading, HeldAs
from lakeward.services.together.erasure.holdings import HeldBecause, HeldPlace, HoldingJudge, place_of
from lakeward.services.together.erasure.outside_index import REMAINS, AskedIndex, OutsideIndex, ask_outside
from lakeward.services.together.erasure.wanted_keys import ErasureKeys, Numbers
from lakeward.services.together.explaining.file_explanation import explain_in_sentences
from lakeward.services.together.explaining.table_explanation import TableExplanation
from lakeward.storage.storage import FileStatus, Storage
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot

OnFile = Callable[[int, int], None]

_LISTINGS_MAX: Final = 5
_BEATS: Final = re.compile(r"/\.hoodie/\.(heartbeat|locks)/")
"""Files that live processes change all the time; they are looked at once."""
_ALL_LIVE: Final = "Queries find the rows of all keys that it holds: delete them first."
_KEYS_ASKED_MAX: Final = 50_000

NOT_LOOKED_AT: Final = (
    "copies of the table elsewhere: backups, replicas, clones, exports",
    "older versions of its objects, soft deletes and snapshots, where the storage keeps such",
    "other tables and systems that were filled from it, and caches of query engines",
    "savepoints, clones or hard links outside of its base path",
    "logs of writers and of query engines, and the store of Lakeward's daemon",
    "the free space of disks: deleted is what no name leads to any more",
)
"""What no look at a table can see; never empty."""
_INDEXES_ELSEWHERE: Final = (
    "indexes outside of its base path that were not named: of Lakeward in PostgreSQL or at another location, of Hudi "
    "in HBase"
)


class KeyState(StrEnum):
    """Scripts match on these ids."""

    LIVE = "live"
    """A query finds the row: it is not deleted."""
    HELD = "held"
    """No query finds it, and files hold it."""
    GONE = "gone"
    """No file that was looked at holds it."""


@dataclass(frozen=True, slots=True)
class Holding:
    path: str
    """Below the table, or the name of an index elsewhere; a key in it is called by its line."""
    size: int
    forms: Mapping[HeldAs, Numbers]
    numbers: Numbers
    """Its keys, by their places."""
    because: HeldBecause


@dataclass(frozen=True, slots=True)
class Unread:
    path: str
    why: str


@dataclass(frozen=True, slots=True)
class LookedAt:
    files: Mapping[HeldPlace, int]
    bytes: Mapping[HeldPlace, int]

    def as_json(self) -> dict[str, dict[str, int]]:
        return {place.value: {"files": self.files[place], "bytes": self.bytes[place]} for place in self.files}


@dataclass(frozen=True, slots=True)
class EraseStatus:
    at: float
    """The clock when the last listing began, in seconds since the epoch."""
    instant: str | None
    """The newest completed instant of the timeline then."""
    keys: int
    states: Sequence[KeyState]
    """The state of each key."""
    holdings: tuple[Holding, ...]
    unread: tuple[Unread, ...]
    looked_at: LookedAt
    too_short_for_text: int
    """So many keys have fewer than eight bytes, and were looked for in columns alone."""
    judged_by: str
    """The settings by which it says how long files stay."""
    asked: tuple[AskedIndex, ...] = ()
    """The indexes on servers that were asked, and answered."""

    def count(self, state: KeyState) -> int:
        return sum(each is state for each in self.states)

    @property
    def not_looked_at(self) -> tuple[str, ...]:
        """What no look can see, and what this one did not look for; never empty."""
        remains = tuple(REMAINS[kind] for kind in dict.fromkeys(each.type for each in self.asked))
        said = (*NOT_LOOKED_AT, _INDEXES_ELSEWHERE, *remains)
        if not self.too_short_for_text:
            return said
        short = format_count(self.too_short_for_text, "key")
        return (*said, f"text outside of columns of keys, for {short} of fewer than eight bytes")

    @property
    def is_gone(self) -> bool:
        """No key is held, and nothing was left unread."""
        return not self.holdings and not self.unread and self.count(KeyState.GONE) == self.keys


@dataclass(slots=True)
class _Looked:
    contents: dict[str, FileContents] = field(default_factory=dict)
    """What is in the files that hold a key."""
    sizes: dict[str, int] = field(default_factory=dict)
    unread: list[Unread] = field(default_factory=list)
    files: Counter[HeldPlace] = field(default_factory=Counter)
    bytes: Counter[HeldPlace] = field(default_factory=Counter)
    metadata_files: frozenset[str] = frozenset()

    def keep_only(self, there: Collection[str]) -> None:
        """What was found in files that have gone since does not count."""
        self.contents = {path: found for path, found in self.contents.items() if path in there}
        self.unread = [each for each in self.unread if each.path in there]
        self.metadata_files = frozenset(path for path in there if place_of(path) is HeldPlace.METADATA)


def look_for_keys(
    explain_now: Callable[[], TableExplanation],
    keys: ErasureKeys,
    *,
    name_of: Callable[[int], str],
    folders: Sequence[str] = (),
    outside: Sequence[OutsideIndex] = (),
    on_file: OnFile | None = None,
) -> EraseStatus:
    """Raises what a scan of the table does.

    Args:
        explain_now: takes a scan of the table.
        name_of: the name of a key, for a path or an error that has it.
        folders: of indexes of the table outside of its base path, in the same storage.
        outside: the servers that have indexes of the table.
        on_file: is called with how many files were looked at, of how many.
    """
    first = explain_now()
    storage, base_path, clock = first.judge.storage, first.judge.base_path, first.judge.clock
    config = first.snapshot.config
    reading = FileReading(storage, keys, tuple(config.record_key_fields))
    looked, seen = _Looked(), set[FileStatus]()
    for _ in range(_LISTINGS_MAX):
        at = clock.now()
        listed = {
            each._replace(identity=None) for folder in (base_path, *folders) for each in list_files(storage, folder)
        }
        looked.keep_only({_below(base_path, each) for each in listed})
        new = sorted(each for each in listed - seen if not (seen and _BEATS.search(each.path)))
        if not new:
            break
        for number, status in enumerate(new):
            if on_file is not None:
                on_file(number, len(new))
            _look_into(reading, base_path, status, looked)
        seen |= listed
    else:
        looked.unread.append(
            Unread("", "Files came faster than they were looked at: look again while no writer is at work.")
        )
    asked, silent = ask_outside(outside, keys)
    looked.unread += [Unread(place, why) for place, why in silent]
    explanation = explain_now()
    live = _live_keys(storage, explanation.snapshot, looked.contents, keys)
    held = np.zeros(len(keys), np.bool_)
    for contents in (*looked.contents.values(), *(index.contents for index in asked)):
        held[contents.numbers] = True
    states = [
        KeyState.LIVE if is_live else KeyState.HELD if is_held else KeyState.GONE
        for is_live, is_held in zip(live, held, strict=True)
    ]
    masked = partial(keys.masked, name_of=name_of)
    completed = [each.completion_time or each.time for each in explanation.snapshot.timeline.completed]
    return EraseStatus(
        at=at,
        instant=max(completed, default=None),
        keys=len(keys),
        states=states,
        holdings=tuple(_masked(each, masked) for each in _judged(explanation, looked, asked, live)),
        unread=tuple(Unread(masked(each.path), masked(each.why)) for each in looked.unread),
        looked_at=LookedAt(dict(looked.files), dict(looked.bytes)),
        too_short_for_text=keys.too_short_for_text,
        judged_by=explanation.judged_by.sentence,
        asked=asked,
    )


def list_files(storage: Storage, folder: str) -> Iterator[FileStatus]:
    """All files below the folder, those in folders that are links included."""
    met: set[object] = set()
    folders = [folder]
    while folders:
        for status in storage.list(folders.pop()):
            if not status.is_folder:
                yield status
            elif status.identity is None or status.identity not in met:
                met.add(status.identity)
                folders.append(status.path)


def _below(base_path: str, status: FileStatus) -> str:
    """The path below the table, or the whole one of a file outside of it."""
    below = status.path.removeprefix(f"{base_path}/")
    return below if below == status.path else below.lstrip("/")


def _look_into(reading: FileReading, base_path: str, status: FileStatus, looked: _Looked) -> None:
    path, place = _below(base_path, status), place_of(_below(base_path, status))
    looked.contents.pop(path, None)
    try:
        contents = reading.read(status.path, status.size, shown=path)
    except NotFound:
        return  # it went since it was listed
    except (OSError, LakewardError) as error:
        looked.unread.append(Unread(path, str(error)))
        return
    looked.files[place] += 1
    looked.bytes[place] += status.size
    looked.unread += [Unread(path, why) for why in contents.unread]
    if contents.found:
        looked.contents[path], looked.sizes[path] = contents, status.size


def _live_keys(
    storage: Storage, snapshot: TableSnapshot, contents: Mapping[str, FileContents], keys: ErasureKeys
) -> npt.NDArray[np.bool_]:
    """Which keys are rows of a newest slice."""
    of_groups: dict[GroupId, list[FileContents]] = defaultdict(list)
    for path, found in contents.items():
        partition, _, name = path.rpartition("/")
        if place_of(path) is HeldPlace.DATA and (parsed := parse_any_data_file(name, native=True)) is not None:
            of_groups[partition, parsed.file_id].append(found)
    live, reading = np.zeros(len(keys), np.bool_), table_reading(snapshot, merges=True)
    for group in snapshot.file_groups:
        found_in = of_groups.get((group.partition_path, group.file_id))
        slice_ = newest_slice(group.slices)
        if found_in is None or slice_ is None:
            continue
        numbers = np.unique(np.concatenate([each.numbers for each in found_in]))
        among = [keys.keys[int(number)].as_py() for number in numbers] if len(numbers) <= _KEYS_ASKED_MAX else None
        for part in slice_keys(storage, reading, slice_, among=among, by_order=False):
            live[keys.in_column(part)] = True
    return live


def _judged(
    explanation: TableExplanation, looked: _Looked, asked: Sequence[AskedIndex], live: npt.NDArray[np.bool_]
) -> Iterator[Holding]:
    snapshot, now = explanation.snapshot, explanation.judge.clock.now()
    explainer = explanation.explainer()
    judge = HoldingJudge(explanation.quarantine, _has_newer(looked.metadata_files))
    for path, contents in sorted(looked.contents.items()):
        explained = None
        if place_of(path) is HeldPlace.DATA:
            explained = explainer.explain(path)
        why = [] if explained is None else explain_in_sentences(explained, now=now, zone=snapshot.zone.zone)[1:]
        because = judge.judge(path, tuple(contents.holds), explained, why)
        yield _holding(path, looked.sizes[path], contents, because, live)
    for index in asked:
        if len(index.contents.numbers):
            yield _holding(index.name, 0, index.contents, judge.elsewhere(index), live)


def _holding(
    path: str, size: int, contents: FileContents, because: HeldBecause, live: npt.NDArray[np.bool_]
) -> Holding:
    if live[contents.numbers].all():
        because = replace(because, why=(_ALL_LIVE, *because.why), release=())
    return Holding(path, size, contents.holds, contents.numbers, because)


def _masked(holding: Holding, masked: Callable[[str], str]) -> Holding:
    because = holding.because
    return replace(holding, path=masked(holding.path), because=replace(because, why=tuple(map(masked, because.why))))


def _has_newer(paths: Collection[str]) -> dict[str, bool]:
    """Whether the file group of each file of the metadata table has a newer base file."""
    newest: dict[GroupId, str] = {}
    instants: dict[str, tuple[GroupId, str]] = {}
    for path in paths:
        folder, _, name = path.rpartition("/")
        base = parse_base_file(name, extension=HFILE)
        if (parsed := base or parse_any_log(name, native=True)) is None:
            continue
        group = (folder, parsed.file_id)
        instants[path] = (group, parsed.instant)
        if base is not None:
            newest[group] = max(newest.get(group, ""), base.instant, key=comparable_time)
    return {
        path: comparable_time(instant) < comparable_time(newest[group]) if group in newest else False
        for path, (group, instant) in instants.items()
    }
