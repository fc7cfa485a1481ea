"""Manifests of an index of Lakeward: the one with the greatest number says which files the index has, and what of them.

    <index>/manifest-<20 digits>.json    {"crc32": …, "manifest": {"version": …, …}}, created once, never changed

What none names is no part of the index. So a change is there whole or not at all, and where two processes make the
next manifest, one gets the error that it exists.

A manifest of many files says what changed since an earlier one (`manifest_changes`): the one whose number has the last
digit that is no zero, by fours, a unit less.

    16 all  <-  32 changes  <-  36 changes  <-  37 changes  <-  38 changes     38, by fours 212, is read: 38, 37, 36, …

So what changed is written once for each digit, and no manifest says all before half of the files are others, or the
digits are all zero: what a commit writes grows with the logarithm of the number of files, and so does what is read.

Touches: storage, reading.
Keeps:   1. a manifest that is not whole, or of another version than this release reads, is refused;
         2. one that says what changed is what it was when it was published, or refused;
         3. no more than `READ_MAX` manifests are read to read one.
See:     `protocol/index/manifests`, which publishes them
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Generic, Protocol, Self, TypeVar

from lakeward.base.errors import BrokenFile, NotFound, Unsupported
from lakeward.base.paths import join
from lakeward.index.manifest_changes import Document, ManifestRows
from lakeward.storage.storage import FileStatus, Storage

DATA_FOLDER: Final = "data"
"""Below the folder of the index: the files that manifests name."""
BASE: Final = 4
DIGITS: Final = 6
"""A manifest says all whose number, by `BASE`, has zeros in so many digits, from the last one on."""
READ_MAX: Final = (BASE - 1) * DIGITS + 1
"""Manifests that are read to read one; a release before this one wrote 16 in a row, each after the one before it."""
CHANGES_FROM: Final = 500
"""Files from which on a manifest may say what changed: one of less is small, and is read at once."""
CHANGES_VERSION: Final = 3
"""The version of a manifest that says what changed since any earlier one."""
_CHANGES_VERSIONS: Final = (2, CHANGES_VERSION)
"""These are read: a release before this one said what changed since the number before."""
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

    def encode(self, manifest: M) -> bytes:
        """The manifest, which says all."""
        return _encoded({"version": self.version, **self.document_of(manifest)})

    def encode_next(self, storage: Storage, folder: str, manifest: M, *, after: M) -> bytes:
        """The manifest as it is put into the folder, where the one with the number before it is."""
        change = self._change(storage, folder, manifest, after)
        return self.encode(manifest) if change is None else _encoded({"version": CHANGES_VERSION, **change})

    def decode(self, data: bytes, *, path: str, number: int) -> M:
        """A manifest that says all. Raises `BrokenFile`, and `Unsupported` for one of a later release."""
        document = self._document(data, path=path)
        if self._is_change(document):
            raise self._broken(path, "it says what changed, and the manifest before it is not there")
        return self._manifest(document, path=path, number=number)

    def read(self, storage: Storage, folder: str, number: int) -> M:
        """Raises what `decode` does, and `NotFound`."""
        document = self._whole(folder, self._followed(storage, folder, number))
        return self._manifest(document, path=manifest_path(folder, number), number=number)

    def read_newest(self, storage: Storage, folder: str) -> M | None:
        """None of a folder without any. Raises what `decode` does, and `NotFound` where it went meanwhile."""
        number = max(list_manifests(storage, folder), default=None)
        return None if number is None else self.read(storage, folder, number)

    def named(self, storage: Storage, folder: str, numbers: Iterable[int]) -> tuple[set[str], set[int]]:
        """(the files that any of these manifests names, the manifests that are read to read them). Raises what `read`
        does."""
        files, read = set[str](), set[int]()
        seen = set[int]()
        for number in sorted(numbers):
            path = manifest_path(folder, number)
            document = self._document(storage.read(path), path=path)
            if self.rows is not None and self._is_change(document) and document["after"] in seen:
                files |= self.rows.came(document)
                read.add(number)
            else:
                followed = self._followed(storage, folder, number)
                files |= {*self._manifest(self._whole(folder, followed), path=path, number=number).paths}
                read |= {at for at, _ in followed}
            seen.add(number)
        return files, read

    def _change(self, storage: Storage, folder: str, manifest: M, after: M) -> Document | None:
        """What changed since the manifest that this one follows; None where it says all."""
        document = self.document_of(manifest)
        follows = followed_by(manifest.number)
        if self.rows is None or follows is None or len(document[self.rows.key]) < CHANGES_FROM:
            return None
        number, before = after.number, self.document_of(after)
        if follows < number:
            try:
                followed = self._followed(storage, folder, number)
                # What says all comes before it, or since: half of the files were others.
                followed = followed[: max(1, sum(at <= follows for at, _ in followed))]
                number, before = followed[-1][0], self._whole(folder, followed)
            except (BrokenFile, NotFound):
                return None
            before = {key: value for key, value in before.items() if key != "version"}
            document = json.loads(_text(document))  # as what was read, without tuples
        change = self.rows.change(before, document, number=number)
        if change is None or 2 * (len(change["rows"]) + len(change["put"])) > len(document[self.rows.key]):
            return None
        return change

    def _is_change(self, document: Document) -> bool:
        return self.rows is not None and document["version"] in _CHANGES_VERSIONS

    def _followed(self, storage: Storage, folder: str, number: int) -> list[tuple[int, Document]]:
        """The manifest, and those that it follows, by their numbers: the first one says all, the last is the one that
        is asked for."""
        found = list[tuple[int, Document]]()
        at = number
        while True:
            path = manifest_path(folder, at)
            try:
                document = self._document(storage.read(path), path=path)
            except NotFound:
                if at < number and number == max(list_manifests(storage, folder), default=None):
                    raise self._broken(manifest_path(folder, number), f"the manifest {path} is gone") from None
                raise  # the one that is asked for is being deleted
            found.insert(0, (at, document))
            if not self._is_change(document):
                return found
            before = document.get("after")
            if len(found) == READ_MAX or not isinstance(before, int) or not 0 <= before < at:
                raise self._broken(path, "no manifest before it says all")
            at = before

    def _whole(self, folder: str, followed: Sequence[tuple[int, Document]]) -> Document:
        """The document of the last of them."""
        (number, document), *changes = followed
        for at, change in changes:
            assert self.rows is not None
            try:
                document = self.rows.changed(document, change, number=number)
            except (ValueError, KeyError, TypeError, IndexError) as error:
                raise self._broken(manifest_path(folder, at), f"{type(error).__name__}: {error}") from None
            number = at
        return document

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


def followed_by(number: int) -> int | None:
    """The manifest of which the one with this number says the changes; None where it says all."""
    unit = 1
    while unit < BASE**DIGITS:
        if number // unit % BASE:
            return number - unit
        unit *= BASE
    return None


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


def _encoded(document: Document) -> bytes:
    text = _text(document)
    return b'{"crc32": %d, "manifest": %s}\n' % (zlib.crc32(text), text)


def _text(document: object) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
