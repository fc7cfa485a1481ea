"""Manifests of an index of Lakeward: the one with the greatest number says which files the index has, and what of them.

    <index>/manifest-<20 digits>.json    {"crc32": …, "manifest": {"version": …, …}}, created once, never changed

What none names is no part of the index. So a change is there whole or not at all, and where two processes make the
next manifest, one gets the error that it exists.

Touches: storage, reading.
Keeps:   a manifest that is not whole, or of another version than this release reads, is refused.
See:     `protocol/index/manifests`, which publishes them
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Generic, Protocol, Self, TypeVar

from lakeward.base.errors import BrokenFile, Unsupported
from lakeward.base.paths import join
from lakeward.storage.storage import FileStatus, Storage

DATA_FOLDER: Final = "data"
"""Below the folder of the index: the files that manifests name."""
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

    def encode(self, manifest: M) -> bytes:
        text = _text({"version": self.version, **self.document_of(manifest)})
        return b'{"crc32": %d, "manifest": %s}\n' % (zlib.crc32(text), text)

    def decode(self, data: bytes, *, path: str, number: int) -> M:
        """Raises `BrokenFile`, and `Unsupported` for one of a later release."""
        try:
            whole = json.loads(data)
            document = whole["manifest"]
            if whole["crc32"] != zlib.crc32(_text(document)):
                raise ValueError("its checksum is another one than it says")
            version = document["version"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise self._broken(path, f"{type(error).__name__}: {error}") from None
        if version != self.version:
            raise Unsupported(
                f"The manifest {path} has version {version}.",
                why=f"This release reads version {self.version}.",
                remedy=f"Use the release that wrote it. {self.remedy}",
            )
        try:
            return self.manifest_of(number, document)
        except (ValueError, KeyError, TypeError) as error:
            raise self._broken(path, f"{type(error).__name__}: {error}") from None

    def read(self, storage: Storage, folder: str, number: int) -> M:
        """Raises what `decode` does, and `NotFound`."""
        path = manifest_path(folder, number)
        return self.decode(storage.read(path), path=path, number=number)

    def read_newest(self, storage: Storage, folder: str) -> M | None:
        """None of a folder without any. Raises what `decode` does, and `NotFound` where it went meanwhile."""
        number = max(list_manifests(storage, folder), default=None)
        return None if number is None else self.read(storage, folder, number)

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
