"""What a reader sees of a simulated table, slowly and without a line of the service's code.

Hudi's rules for layout 2: a base file counts when its instant is completed, also where that has left for the history;
a log belongs to the newest slice that began before the log's instant completed; a pending compaction opens a slice, and
readers merge it with the one before. A file group that a commit on the timeline replaced is not read.
"""

from __future__ import annotations

import io
import json
import posixpath
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from typing import Any

import fastavro
import pyarrow.parquet as pq

from tests.simulation.data_files import Content, fold, read_base_file, read_log_file
from tests.simulation.memory_storage import MemoryStorage

TIMELINE_FILE = re.compile(r"(\d{17})(?:_(\d{17}))?\.([a-z]+)(?:\.(requested|inflight))?")
BASE_FILE = re.compile(r"([^._]+)_([0-9-]+)_(\d{17})\.parquet")
LOG_FILE = re.compile(r"\.([^._]+)_(\d{17})\.log\.1_([0-9-]+)")
HISTORY = "history"
WRITES = ("commit", "deltacommit", "replacecommit")


@dataclass
class Instants:
    """The timeline of a table."""

    pending: dict[str, set[tuple[str, str]]] = field(default_factory=dict)
    """Maps a time to (action, state) of its requested and inflight files."""
    completed: dict[str, list[tuple[str, str, str]]] = field(default_factory=dict)
    """Maps a time to (completion time, action, path) of each of its completed files."""
    names: dict[str, str] = field(default_factory=dict)
    """Maps a path to its parsed name, if that fits the grammar; the others are unknown."""
    unknown: list[str] = field(default_factory=list)
    archived: Mapping[str, str] = field(default_factory=dict)
    """Completion times of the writes in the history."""

    def completion_time(self, instant: str) -> str | None:
        on_timeline = (at for at, action, _ in self.completed.get(instant, ()) if action in WRITES)
        return next(on_timeline, self.archived.get(instant))

    def pending_actions(self, instant: str) -> set[str]:
        return {action for action, _ in self.pending.get(instant, ())}


def read_timeline(storage: MemoryStorage, base_path: str) -> Instants:
    folder = f"{base_path}/.hoodie/timeline"
    instants = _instants_of(folder, tuple(name for name in storage.names(folder) if name != HISTORY))
    archived = read_history(storage, base_path)
    return replace(instants, archived=archived) if archived else instants


@lru_cache(maxsize=64)
def _instants_of(folder: str, names: tuple[str, ...]) -> Instants:
    instants = Instants()
    for name in names:
        match = TIMELINE_FILE.fullmatch(name)
        if match is None:
            instants.unknown.append(name)
            continue
        time, completed, action, state = match.groups()
        path = f"{folder}/{name}"
        instants.names[path] = name
        if state:
            instants.pending.setdefault(time, set()).add((action, state))
        elif action == "inflight":
            instants.pending.setdefault(time, set()).add(("commit", "inflight"))
        else:
            instants.completed.setdefault(time, []).append((completed, action, path))
    return instants


def read_history(storage: MemoryStorage, base_path: str) -> dict[str, str]:
    """Completion times of archived writes."""
    return {time: at for time, at, action in _history_rows(storage, base_path) if action in WRITES}


def read_archived(storage: MemoryStorage, base_path: str) -> set[str]:
    """Requested times of archived instants, whatever they did."""
    return {time for time, _, _ in _history_rows(storage, base_path)}


def _history_rows(storage: MemoryStorage, base_path: str) -> Iterator[tuple[str, str, str]]:
    """Requested time, completion time and action of each row."""
    folder = f"{base_path}/.hoodie/timeline/{HISTORY}"
    # `_version_` is not there while it is replaced; readers take the newest manifest then.
    manifests = [int(name.rpartition("_")[2]) for name in storage.names(folder) if name.startswith("manifest_")]
    if not manifests:
        return
    is_shown = storage.stat(f"{folder}/_version_") is not None
    version = int(storage.read(f"{folder}/_version_")) if is_shown else max(manifests)
    for file in json.loads(storage.read(f"{folder}/manifest_{version}"))["files"]:
        yield from _history_file(storage.read(f"{folder}/{file['fileName']}"))


@lru_cache(maxsize=256)
def _history_file(data: bytes) -> tuple[tuple[str, str, str], ...]:
    rows = pq.read_table(io.BytesIO(data), columns=["instantTime", "completionTime", "action"]).to_pylist()
    return tuple((row["instantTime"], row["completionTime"], row["action"]) for row in rows)


@lru_cache(maxsize=4096)
def read_avro(data: bytes) -> dict[str, Any]:
    return next(fastavro.reader(io.BytesIO(data)))  # type: ignore[return-value]


def planned_files(storage: MemoryStorage, base_path: str, instants: Instants) -> set[str]:
    """Names of all files that pending plans of compactions and log compactions read."""
    names: set[str] = set()
    for time in instants.pending.keys() - instants.completed.keys():
        for action in instants.pending_actions(time) & {"compaction", "logcompaction"}:
            if (action, "requested") in instants.pending[time]:
                plan = read_avro(storage.read(f"{base_path}/.hoodie/timeline/{time}.{action}.requested"))
                for each in plan["operations"]:
                    names |= {
                        posixpath.basename(path) for path in (each["dataFilePath"], *each["deltaFilePaths"]) if path
                    }
    return names


def planned_groups(storage: MemoryStorage, base_path: str, instants: Instants, action: str) -> dict[Any, list[str]]:
    """Which pending plans of `action` hold which group."""
    groups: dict[Any, list[str]] = defaultdict(list)
    for time in sorted(instants.pending):
        if (action, "requested") in instants.pending[time] and time not in instants.completed:
            plan = read_avro(storage.read(f"{base_path}/.hoodie/timeline/{time}.{action}.requested"))
            for operation in plan["operations"]:
                groups[operation["partitionPath"], operation["fileId"]].append(time)
    return groups


def replaced_groups(storage: MemoryStorage, instants: Instants) -> dict[tuple[str, str], str]:
    """The file groups that completed instants on the timeline replaced, each with the instant that did."""
    groups: dict[tuple[str, str], str] = {}
    for time, each in instants.completed.items():
        for _, action, path in each:
            if action == "replacecommit":
                groups |= dict.fromkeys(replaced_by(storage.read(path)), time)
    return groups


def replaced_by(commit: bytes) -> list[tuple[str, str]]:
    replaced = read_avro(commit)["partitionToReplaceFileIds"] or {}
    return [(partition, file_id) for partition, file_ids in sorted(replaced.items()) for file_id in file_ids]


def is_empty(commit: bytes) -> bool:
    """Whether a replacement wrote nothing and replaced nothing."""
    return not read_avro(commit)["partitionToWriteStats"] and not replaced_by(commit)


@dataclass
class Group:
    bases: dict[str, list[tuple[str, Content]]] = field(default_factory=lambda: defaultdict(list))
    logs: list[tuple[str, str, Content]] = field(default_factory=list)
    """Instant, path, content."""


@dataclass(frozen=True)
class View:
    """What readers see, and what is wrong with it."""

    visible: frozenset[int]
    problems: tuple[str, ...] = ()
    completed_bases: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    """Maps a group to the instants of its base files that count, oldest first."""
    ids: dict[tuple[str, str], frozenset[int]] = field(default_factory=dict)
    """What is visible, by the group that it is in."""


def read_table(storage: MemoryStorage, base_path: str, partitions: tuple[str, ...]) -> View:
    instants = read_timeline(storage, base_path)
    groups: dict[tuple[str, str], Group] = defaultdict(Group)
    for partition in partitions:
        for status in storage.list(posixpath.join(base_path, partition)):
            if match := BASE_FILE.fullmatch(status.name):
                file_id, _, instant = match.groups()
                if instants.completion_time(instant) is not None:
                    content = read_base_file(storage.read(status.path))
                    groups[partition, file_id].bases[instant].append((status.path, content))
            elif match := LOG_FILE.fullmatch(status.name):
                file_id, instant, _ = match.groups()
                if instants.completion_time(instant) is not None:
                    content = read_log_file(storage.read(status.path))
                    groups[partition, file_id].logs.append((instant, status.path, content))
    opened = planned_groups(storage, base_path, instants, "compaction")
    replaced = replaced_groups(storage, instants)
    ids: dict[tuple[str, str], frozenset[int]] = {}
    problems: list[str] = []
    for group_id, group in groups.items():
        for instant, bases in group.bases.items():
            if len(bases) > 1:
                problems.append(f"{group_id} has two committed base files at {instant}: {[path for path, _ in bases]}")
        if group_id not in replaced:
            ids[group_id] = frozenset(_visible_of(group, instants, opened.get(group_id, [])))
    times = Counter(chain.from_iterable(ids.values()))
    if len(times) < times.total():
        problems.append(f"{base_path}: {sorted(id_ for id_, number in times.items() if number > 1)} are there twice")
    bases = {group_id: sorted(group.bases) for group_id, group in groups.items()}
    return View(frozenset(times), tuple(problems), bases, ids)


def _visible_of(group: Group, instants: Instants, opened: list[str]) -> set[int]:
    begins = sorted({*group.bases, *opened}, reverse=True)
    slices: dict[str, list[tuple[str, Content]]] = {begin: [] for begin in (*begins, "")}  # "": before every base file
    for instant, _, content in sorted(group.logs, key=lambda log: (log[0], log[1])):
        completed = instants.completion_time(instant)
        assert completed is not None
        slices[next((begin for begin in begins if begin <= completed), "")].append((instant, content))
    merged: list[tuple[str, Content]] = []
    for begin, logs in slices.items():
        merged = logs + merged
        if begin in group.bases:
            return fold(merged)[0] | group.bases[begin][0][1].ids
    return fold(merged)[0]
