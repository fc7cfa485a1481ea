"""Manifests of an index of Lakeward: the one with the greatest number says which files the index has, and what of them.

    <index>/manifest-<20 digits>.json    {"crc32": …, "manifest": {"version": …, …}}, created once, never changed

What none names is no part of the index. So a change is there whole or not at all, and where two processes make the
next manifest, one gets the error that it exists.

A manifest of many files says what changed since the one before it (`manifest_changes`), up to `FOLLOWING` in a row; the
next one says all.

    40 all  <-  41 changes  <-  42 changes     42 is read: 42, 41 and 40

Touches: storage, reading.
Keeps:   1. a manifest that is not whole, or of another version than this release reads, is refused;
         2. one that says what changed is what it was when it was published, or refused.
See:     `protocol/index/manifests`, which publishes them
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Generic, Protocol, Self, TypeVar

from lakeward.base.errors import BrokenFile, NotFound, Unsupported
from lakeward.base.paths import join
from lakeward.index.manifest_changes import Document, ManifestRows
from lakeward.storage.storage import FileStatus, Storage

DATA_FOLDER: Final = "data"
"""Below the folder of the index: the files that manifests name."""
FOLLOWING: Final = 15
"""Manifests in a row that say what changed, each of which is read to read the last: every sixteenth number says all."""
CHANGES_FROM: Final = 500
"""Files from which on a manifest may say what changed: one of less is small, and is read at once."""
CHANGES_VERSION: Final = 2
"""The version of a manifest that says what changed."""
_NAME = re.compile(r"manifest-(?P<number>\d{20})\.json")


class IndexManifest(Protocol):
    @property
    def number(self) -> int: ...

    @property
    def paths(self) -> Collection[str]:
        """The files that it names, below the folder of the index."""

    def numbered(self, number: int, *, by: str) -> Self:
        """The same one as the manifest with that number, which an attempt with this token makes."""


@dataclass(frozen=True, slots=True)
class TableChoice:
    """What an operator chose of a table, as a manifest: it is all there is of it."""

    number: int = 0
    by: str = field(default="", compare=False, kw_only=True)
    """The token of the attempt that wrote it."""

    @property
    def paths(self) -> Collection[str]:
        """It has no files but manifests."""
        return ()

    def numbered(self, number: int, *, by: str) -> Self:
        return replace(self, number=number, by=by)


M = TypeVar("M", bound=IndexManifest)


@dataclass(frozen=True, slots=True)
class ManifestForm(Generic[M]):
    """How the manifests of one kind of index are written and read."""

    index: str
    """`a record index`, as messages call it."""
    remedy: str
    """What helps where a manifest of it is broken: sentences."""
    version: int
    document_of: Callable[[M], Mapping[str, Any]]
    manifest_of: Callable[[int, Mapping[str, Any]], M]
    """From its number and what `document_of` gave; `ValueError`, `KeyError` and `TypeError` for anything else."""
    number_of: Callable[[str], int | None]
    """The manifest that the attempt had read which wrote the data file of this name; None for a name that is none."""
    rows: ManifestRows | None = None
    """What may be said by what changed; None: each manifest says all."""

    def encode(self, manifest: M, *, after: M | None = None) -> bytes:
        """
        Args:
            after: the manifest before it, upon which it may say what changed.
        """
        document = self.document_of(manifest)
        change = None if after is None else self._change(after, document)
        text = _text({"version": self.version, **document} if change is None else change)
        return b'{"crc32": %d, "manifest": %s}\n' % (zlib.crc32(text), text)

    def decode(self, data: bytes, *, path: str, number: int) -> M:
        """A manifest that says all. Raises `BrokenFile`, and `Unsupported` for one of a later release."""
        document = self._document(data, path=path)
        if self._is_change(document):
            raise self._broken(path, "it says what changed, and the manifest before it is not there")
        return self._manifest(document, path=path, number=number)

    def read(self, storage: Storage, folder: str, number: int) -> M:
        """Raises what `decode` does, and `NotFound`."""
        followed = self._followed(storage, folder, number)
        first = number - len(followed) + 1
        document = followed[0]
        for at, change in enumerate(followed[1:], first):
            assert self.rows is not None
            try:
                document = self.rows.changed(document, change, number=at)
            except (ValueError, KeyError, TypeError, IndexError) as error:
                raise self._broken(manifest_path(folder, at + 1), f"{type(error).__name__}: {error}") from None
        return self._manifest(document, path=manifest_path(folder, number), number=number)

    def read_newest(self, storage: Storage, folder: str) -> M | None:
        """None of a folder without any. Raises what `decode` does, and `NotFound` where it went meanwhile."""
        number = max(list_manifests(storage, folder), default=None)
        return None if number is None else self.read(storage, folder, number)

    def first_read(self, storage: Storage, folder: str, number: int) -> int:
        """The first manifest that is read to read the one with this number. Raises what `read` does."""
        return number - len(self._followed(storage, folder, number)) + 1

    def named(self, storage: Storage, folder: str, numbers: Iterable[int]) -> set[str]:
        """The files that any of these manifests names, each of which is read once. Raises what `read` does."""
        found = set[str]()
        last = None
        for number in sorted(numbers):
            path = manifest_path(folder, number)
            document = self._document(storage.read(path), path=path)
            if not self._is_change(document):
                found |= {*self._manifest(document, path=path, number=number).paths}
            elif last != number - 1 or self.rows is None:
                found |= {*self.read(storage, folder, number).paths}
            else:
                found |= self.rows.came(document)
            last = number
        return found

    def _change(self, after: M, document: Document) -> Document | None:
        is_due = (after.number + 1) % (FOLLOWING + 1) == 0
        if self.rows is None or is_due or len(document[self.rows.key]) < CHANGES_FROM:
            return None
        change = self.rows.change(self.document_of(after), document, number=after.number)
        if change is None or 2 * (len(change["rows"]) + len(change["put"])) > len(document[self.rows.key]):
            return None
        return {"version": CHANGES_VERSION, **change}

    def _is_change(self, document: Document) -> bool:
        return self.rows is not None and document["version"] == CHANGES_VERSION

    def _followed(self, storage: Storage, folder: str, number: int) -> list[Document]:
        """The manifest, and those that it follows: the first one says all, the last is the one that is asked for."""
        found = list[Document]()
        at = number
        while True:
            path = manifest_path(folder, at)
            try:
                found.insert(0, self._document(storage.read(path), path=path))
            except NotFound:
                if at < number and number == max(list_manifests(storage, folder), default=None):
                    raise self._broken(manifest_path(folder, number), f"the manifest {path} is gone") from None
                raise  # the one that is asked for is being deleted, and those before it went first
            if not self._is_change(found[0]):
                return found
            if len(found) > FOLLOWING or at == 0:
                raise self._broken(path, "no manifest before it says all")
            at -= 1

    def _document(self, data: bytes, *, path: str) -> Document:
        try:
            whole = json.loads(data)
            document: Document = whole["manifest"]
            if whole["crc32"] != zlib.crc32(_text(document)):
                raise ValueError("its checksum is another one than it says")
            version = document["version"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise self._broken(path, f"{type(error).__name__}: {error}") from None
        if version != self.version and not self._is_change(document):
            raise Unsupported(
                f"The manifest {path} has version {version}.",
                why=f"This release reads version {self.version}.",
                remedy=f"Use the release that wrote it. {self.remedy}",
            )
        return document

    def _manifest(self, document: Document, *, path: str, number: int) -> M:
        try:
            return self.manifest_of(number, document)
        except (ValueError, KeyError, TypeError) as error:
            raise self._broken(path, f"{type(error).__name__}: {error}") from None

    def _broken(self, path: str, why: str) -> BrokenFile:
        return BrokenFile(
            f"The manifest {path} of {self.index} is broken.",
            why=f"{why[:1].upper()}{why[1:]}.",
            remedy=self.remedy,
        )


def manifest_path(folder: str, number: int) -> str:
    return join(folder, f"manifest-{number:020}.json")


def list_manifests(storage: Storage, folder: str) -> dict[int, FileStatus]:
    """The manifests in a folder by their numbers, ascending."""
    found = {
        int(match["number"]): status
        for status in storage.list(folder)
        if (match := _NAME.fullmatch(status.name)) is not None and not status.is_folder
    }
    return dict(sorted(found.items()))


def _text(document: object) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
