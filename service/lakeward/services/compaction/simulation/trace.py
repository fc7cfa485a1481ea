"""What happened to a table, as bytes and moments: which commit put how much into which file group. It has no data.

    commits    by completion: those up to `begins` made what lay there then, those after it are replayed
    file       a base, or a log; the output of a LOG says which commits it merged
    groups     partition path and file id by number; hashes, where the trace is recorded to be given away

A recorded trace is one JSON document. It has no key, path, column or name of the table: of its properties those that
planning asks for, and the names of its file groups as hashes with a salt that is kept nowhere.

Touches: nothing.
Keeps:   1. parse_trace(write_trace(trace)) == trace;
         2. a document that is no trace, or one of another version, is refused, never read in part;
         3. a recorded trace has no name of a partition, a file group or a column.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import orjson

from lakeward.base.errors import BrokenFile
from lakeward.table.file_system_view import GroupId
from lakeward.table.table_config import CDC_ENABLED, PARTIAL_UPDATE_MODE, STORAGE_LAYOUT, VERSION, TableConfig

VERSION_OF_TRACES = 1

_VERSION_KEY = "lakeward_trace"
_LAYOUT = "hoodie.timeline.layout.version"
_TYPE = "hoodie.table.type"
_MERGE_MODE = "hoodie.record.merge.mode"
_HASH_LENGTH = 16


class CommitAuthor(StrEnum):
    WRITER = "writer"
    COMPACTION = "compaction"
    """FULL or LOG, by whichever engine."""
    CLUSTERING = "clustering"


@dataclass(frozen=True, slots=True)
class TracedFile:
    group: int
    size: int
    is_base: bool
    insert_share: float = 0.0
    """The part of its rows that were not there before, as the commit says."""
    sources: tuple[int, ...] = ()
    """When the commits began whose logs a LOG merged into it."""


@dataclass(frozen=True, slots=True)
class TracedCommit:
    began: int
    """Milliseconds since the epoch, as all moments of a trace: the instant."""
    at: int
    """When it completed."""
    author: CommitAuthor
    files: tuple[TracedFile, ...]
    replaced: tuple[int, ...] = ()
    """Groups that it took away from readers."""


@dataclass(frozen=True, slots=True)
class Trace:
    groups: tuple[GroupId, ...]
    commits: tuple[TracedCommit, ...]
    begins: int
    ends: int
    properties: Mapping[str, str] = field(default_factory=dict)
    """Properties of the table that its planner asks for."""
    unknown_bases: int = 0
    """Groups whose base was written before anything that is known, and is gone: counted as empty."""

    @property
    def config(self) -> TableConfig:
        return TableConfig({"hoodie.table.timeline.timezone": "UTC", **self.properties})

    @property
    def replayed(self) -> tuple[TracedCommit, ...]:
        """The commits after its beginning."""
        return tuple(commit for commit in self.commits if commit.at > self.begins)

    def between(self, begins: int, ends: int) -> Trace:
        """The same with another beginning, and without what completed after its end."""
        commits = tuple(commit for commit in self.commits if commit.at <= ends)
        return replace(self, commits=commits, begins=begins, ends=ends)

    def hashed(self, salt: bytes) -> Trace:
        """The same without names.

        Args:
            salt: makes the hash of a name that one guesses worthless.
        """

        def of(name: str) -> str:
            return hashlib.sha256(salt + name.encode(errors="surrogateescape")).hexdigest()[:_HASH_LENGTH]

        groups = tuple((of(partition), of(f"{partition}/{file_id}")) for partition, file_id in self.groups)
        return replace(self, groups=groups)


def properties_of(config: TableConfig) -> dict[str, str]:
    """The properties of a table by which its file groups are planned."""
    known = {
        VERSION: str(config.version.number),
        _LAYOUT: str(config.layout),
        _TYPE: config.table_type,
        _MERGE_MODE: config.merge_mode,
    }
    others = {name: value for name in (CDC_ENABLED, PARTIAL_UPDATE_MODE, STORAGE_LAYOUT) if (value := config.get(name))}
    return known | others


def write_trace(trace: Trace) -> bytes:
    return orjson.dumps(
        {
            _VERSION_KEY: VERSION_OF_TRACES,
            "begins": trace.begins,
            "ends": trace.ends,
            "properties": dict(trace.properties),
            "unknown_bases": trace.unknown_bases,
            "groups": trace.groups,
            "commits": [
                [commit.began, commit.at, commit.author.value, [_file(each) for each in commit.files], commit.replaced]
                for commit in trace.commits
            ],
        }
    )


def _file(file: TracedFile) -> list[Any]:
    return [file.group, file.size, file.is_base, file.insert_share, file.sources]


def parse_trace(content: bytes, *, file: str) -> Trace:
    """Raises `BrokenFile`.

    Args:
        file: its name, for messages.
    """
    try:
        document = orjson.loads(content)
        if not isinstance(document, dict) or _VERSION_KEY not in document:
            raise ValueError("It is not a JSON object with the field lakeward_trace.")
        if document[_VERSION_KEY] != VERSION_OF_TRACES:
            raise ValueError(f"It has version {document[_VERSION_KEY]}; this release reads {VERSION_OF_TRACES}.")
        trace = Trace(
            groups=tuple((str(partition), str(file_id)) for partition, file_id in document["groups"]),
            commits=tuple(_parse_commit(*each) for each in document["commits"]),
            begins=int(document["begins"]),
            ends=int(document["ends"]),
            properties={str(name): str(value) for name, value in document["properties"].items()},
            unknown_bases=int(document["unknown_bases"]),
        )
        _check(trace)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        why = f"It lacks {error}." if isinstance(error, KeyError) else str(error)
        raise BrokenFile(
            f"{file} is no trace of a table.", why=why, remedy="Make it with `lakeward record TABLE --to FILE`."
        ) from error
    return trace


def _parse_commit(began: int, at: int, author: str, files: list[Any], replaced: list[int]) -> TracedCommit:
    return TracedCommit(
        int(began),
        int(at),
        CommitAuthor(author),
        tuple(
            TracedFile(int(group), int(size), bool(is_base), float(share), tuple(map(int, sources)))
            for group, size, is_base, share, sources in files
        ),
        tuple(map(int, replaced)),
    )


def _check(trace: Trace) -> None:
    """Raises `ValueError` for what no table can have been."""
    groups = range(len(trace.groups))
    before = 0
    for commit in trace.commits:
        if commit.at < before:
            raise ValueError(f"The commit that completed at {commit.at} comes after one that completed later.")
        before = commit.at
        if any(file.group not in groups or file.size < 0 for file in commit.files):
            raise ValueError(f"The commit that completed at {commit.at} has a file of no group, or of no size.")
        if any(group not in groups for group in commit.replaced):
            raise ValueError(f"The commit that completed at {commit.at} replaces a group that there is not.")
    if trace.ends < max(trace.begins, before):
        raise ValueError("It ends before its last commit.")
