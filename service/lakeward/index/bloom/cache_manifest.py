"""The manifests of the cache of filters: which files it has, and of which files of the table it could have nothing.

Touches: storage, reading.
See:     `index/manifest_form`
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from lakeward.base.errors import NotFound
from lakeward.base.paths import join
from lakeward.index.bloom.cache_file import CacheFile, number_of
from lakeward.index.index_type import IndexType
from lakeward.index.manifest_form import ManifestForm
from lakeward.index.out_of_use import FOLDER
from lakeward.storage.storage import Storage
from lakeward.table.table_config import hoodie_folder

_LOOKS: Final = 3


@dataclass(frozen=True, slots=True)
class CacheManifest:
    number: int
    files: tuple[CacheFile, ...] = ()
    with_logs: bool = False
    """Whether it is to have logs, too."""
    unread: tuple[tuple[str, int], ...] = ()
    """Path and size of the files that could not be read when it was brought up to date, in order."""
    is_dropped: bool = False
    by: str = ""
    """The token of the attempt that wrote it."""

    @property
    def is_built(self) -> bool:
        """The first manifest says only that there is to be a cache."""
        return self.number > 0

    @property
    def paths(self) -> Collection[str]:
        return [file.path for file in self.files]

    @property
    def size_bytes(self) -> int:
        return sum(file.size for file in self.files)

    def numbered(self, number: int, *, by: str) -> Self:
        return replace(self, number=number, by=by)


def _document(manifest: CacheManifest) -> Mapping[str, Any]:
    return {
        "files": [[each.path, each.size, each.entries, each.entries_at, each.crc32] for each in manifest.files],
        "with_logs": manifest.with_logs,
        "unread": [list(each) for each in manifest.unread],
        "is_dropped": manifest.is_dropped,
        "by": manifest.by,
    }


def _manifest(number: int, document: Mapping[str, Any]) -> CacheManifest:
    return CacheManifest(
        number,
        files=tuple(CacheFile(*row) for row in document["files"]),
        with_logs=document["with_logs"],
        unread=tuple((path, size) for path, size in document["unread"]),
        is_dropped=document["is_dropped"],
        by=document["by"],
    )


CACHE_FORM: Final = ManifestForm(
    index="the cache of filters",
    remedy="Restore the file, or build the index again (`lakeward index rebuild TABLE --type bloom`): it is made of "
    "the table alone.",
    version=1,
    document_of=_document,
    manifest_of=_manifest,
    number_of=number_of,
)


def cache_folder(base_path: str) -> str:
    return join(hoodie_folder(base_path), FOLDER, IndexType.BLOOM)


def find_cache(storage: Storage, folder: str) -> CacheManifest | None:
    """The newest manifest; None where there is no cache. Raises `BrokenFile` and `Unsupported`."""
    for _ in range(_LOOKS):
        try:
            manifest = CACHE_FORM.read_newest(storage, folder)
        except NotFound:
            continue  # it was replaced and deleted between the listing and the reading
        return None if manifest is None or manifest.is_dropped else manifest
    return None
