"""What a record index is, at one moment: its manifest, of which the newest counts (`index/manifest_form`).

    groups            groups of buckets, each with a hash, a number of buckets, and the open link of each
    files             `index/record/record_file`
    commits           commits of the table whose files are here and that are not settled; when each completed, where
                      that was known
    settled           commits that can turn invalid no more and that files name all the same
    settled_through   the completion time up to which commits are settled
    exact_at          completion times as of which the index is what the table was: it had all by then, and nothing
                      later was there when it took that in. Those since the last merge
    moved_to          the index is in that folder below this one by now
    is_dropped        it is being deleted

Touches: storage, reading; it loads no kernels, so that the daemon, which reads manifests, has none.
See:     docs/decisions/0080-the-table-of-the-record-index.md, docs/formats/record-index.md
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from lakeward.base.errors import NotFound, Refused
from lakeward.base.paths import join
from lakeward.format.timeline.instant import comparable_time
from lakeward.index.index import Indexed
from lakeward.index.manifest_changes import ManifestRows
from lakeward.index.manifest_form import ManifestForm
from lakeward.index.record.created_with import DEFAULT_HASH, SECOND_HASH, KeyScope
from lakeward.index.record.index_growth import GroupLoad, IndexLoad, OpenGroup, Scaling, ScalingWay, Seal
from lakeward.index.record.record_file import FileKind, IndexGroup, RecordFile, number_of
from lakeward.storage.storage import Storage


@dataclass(frozen=True, slots=True)
class BucketGroup:
    hash_name: str
    links: tuple[int, ...]
    """The open link of each bucket."""

    @property
    def buckets(self) -> int:
        return len(self.links)


@dataclass(frozen=True, slots=True)
class RecordManifest:
    number: int
    scope: KeyScope
    hash_name: str = DEFAULT_HASH
    """The hash of the first group."""
    scaling: Scaling = field(default_factory=Scaling)
    groups: tuple[BucketGroup, ...] = ()
    """None before the first entry: then it is known how many buckets there are to be."""
    files: tuple[RecordFile, ...] = ()
    commits: Mapping[str, str | None] = field(default_factory=dict)
    settled: frozenset[str] = frozenset()
    settled_through: str | None = None
    exact_at: tuple[str, ...] = ()
    moved_to: str | None = None
    is_dropped: bool = False
    by: str = ""
    """The token of the attempt that wrote it."""

    @property
    def indexed(self) -> Indexed:
        return Indexed.of(self.settled_through, self.commits)

    @property
    def paths(self) -> Collection[str]:
        return [file.path for file in self.files]

    @property
    def entries(self) -> int:
        """The entries of all files, those too that newer ones hide."""
        return sum(file.entries for file in self.files)

    @property
    def size_bytes(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def loads(self) -> Sequence[GroupLoad]:
        """How full the open file groups are."""
        entries: dict[IndexGroup, int] = {}
        for file in self.files:
            entries[file.of] = entries.get(file.of, 0) + file.entries
        return [
            GroupLoad(number, [entries.get(IndexGroup(number, *each), 0) for each in enumerate(group.links)])
            for number, group in enumerate(self.groups)
        ]

    @property
    def load(self) -> IndexLoad | None:
        """None of an index without buckets, to which nothing came yet."""
        loads = self.loads
        if not loads:
            return None
        return IndexLoad(loads[-1].mean_load(self.scaling), loads[-1].max_load(self.scaling))

    @property
    def unmerged(self) -> int:
        """The most files of commits that a file group of it has: they are asked beside the merged ones."""
        deltas = Counter(file.of for file in self.files if file.kind is FileKind.DELTA)
        return max(deltas.values(), default=0)

    def numbered(self, number: int, *, by: str) -> Self:
        return replace(self, number=number, by=by)

    def with_first_group(self, buckets: int) -> RecordManifest:
        assert not self.groups and buckets > 0
        return replace(self, groups=(BucketGroup(self.hash_name, (0,) * buckets),))

    def with_commit(self, instant: str, completed: str | None, files: Iterable[RecordFile]) -> RecordManifest:
        """The commit with these files, in place of what it had before."""
        others = (file for file in self.files if file.kind is not FileKind.DELTA or file.instant != instant)
        return replace(self, files=(*others, *files), commits={**self.commits, instant: completed})

    def with_build(self, completed: str, files: Iterable[RecordFile]) -> RecordManifest:
        """All of the table as of a commit, which is settled."""
        assert not self.files and not self.commits
        return replace(self, files=tuple(files), settled_through=completed, exact_at=(completed,))

    def without_commits(self, instants: Collection[str]) -> RecordManifest:
        """Their deltas go; what merged files have of them counts no more."""
        return replace(
            self,
            files=tuple(f for f in self.files if f.kind is not FileKind.DELTA or f.instant not in instants),
            commits={instant: completed for instant, completed in self.commits.items() if instant not in instants},
        )

    def with_settled(self, completed: Mapping[str, str]) -> RecordManifest:
        """These commits, with their completion times, can turn invalid no more."""
        if not completed:
            return self
        times = [*completed.values(), *([] if self.settled_through is None else [self.settled_through])]
        files = (
            replace(file, completed=completed[file.instant])
            if file.kind is FileKind.DELTA and file.instant in completed
            else file
            for file in self.files
        )
        commits = {instant: at for instant, at in self.commits.items() if instant not in completed}
        settled = self.settled | completed.keys()
        return replace(
            self,
            files=tuple(files),
            commits=commits,
            settled=settled,
            settled_through=max(times, key=comparable_time),
        )._without_unnamed()

    def with_merged(self, merged: Iterable[RecordFile], into: Collection[RecordFile]) -> RecordManifest:
        """These files in place of those."""
        gone = {file.stretch for file in merged}
        kept = tuple(file for file in self.files if file.stretch not in gone)
        through = max((file.completed or "" for file in into), key=comparable_time)
        exact = tuple(at for at in self.exact_at if comparable_time(at) >= comparable_time(through))
        return replace(self, files=(*kept, *into), exact_at=exact)._without_unnamed()

    def with_exact(self, completed: str) -> RecordManifest:
        """The index is what the table was when all had completed that completed up to then."""
        return self if completed in self.exact_at else replace(self, exact_at=(*self.exact_at, completed))

    def with_growth(self, growth: OpenGroup | Sequence[Seal]) -> RecordManifest:
        if isinstance(growth, OpenGroup):
            assert growth.group == len(self.groups)
            second = SECOND_HASH if self.hash_name != SECOND_HASH else DEFAULT_HASH
            return replace(self, groups=(*self.groups, BucketGroup(second, (0,) * growth.buckets)))
        groups = list(self.groups)
        for seal in growth:
            links = list(groups[seal.group].links)
            links[seal.bucket] += 1
            groups[seal.group] = replace(groups[seal.group], links=tuple(links))
        return replace(self, groups=tuple(groups))

    def _without_unnamed(self) -> RecordManifest:
        named = frozenset[str]().union(*(file.names for file in self.files))
        return replace(self, settled=self.settled & named)


def _document(manifest: RecordManifest) -> dict[str, Any]:
    return {
        "scope": manifest.scope.value,
        "hash": manifest.hash_name,
        "scaling": {
            "way": manifest.scaling.way.value,
            "entries_max": manifest.scaling.entries_max,
            "load_max": manifest.scaling.load_max,
        },
        "groups": [{"hash": group.hash_name, "links": group.links} for group in manifest.groups],
        "files": [_file_row(file) for file in manifest.files],
        "commits": dict(manifest.commits),
        "settled": sorted(manifest.settled),
        "settled_through": manifest.settled_through,
        "exact_at": manifest.exact_at,
        "moved_to": manifest.moved_to,
        "is_dropped": manifest.is_dropped,
        "by": manifest.by,
    }


def _manifest(number: int, document: Mapping[str, Any]) -> RecordManifest:
    if document.get("seen") is not None:
        raise ValueError("It is the index of a table of version 6, which a build of Lakeward before 0.1.0 kept")
    scaling = document["scaling"]
    return RecordManifest(
        number,
        KeyScope(document["scope"]),
        document["hash"],
        Scaling(ScalingWay(scaling["way"]), scaling["entries_max"], scaling["load_max"]),
        tuple(BucketGroup(group["hash"], tuple(group["links"])) for group in document["groups"]),
        tuple(_file(row) for row in document["files"]),
        document["commits"],
        frozenset(document["settled"]),
        document["settled_through"],
        tuple(document["exact_at"]),
        document["moved_to"],
        document["is_dropped"],
        document["by"],
    )


def _file_row(file: RecordFile) -> list[Any]:
    return [
        *file.of,
        file.kind.value,
        file.path,
        file.size,
        file.entries,
        file.tombstones,
        file.instant,
        file.completed,
        list(file.instants),
        file.offset,
    ]


def _file(row: Sequence[Any]) -> RecordFile:
    group, bucket, link, kind, path, size, entries, tombstones, instant, completed, instants, offset = row
    of = IndexGroup(group, bucket, link)
    return RecordFile(of, FileKind(kind), path, size, entries, tombstones, instant, completed, tuple(instants), offset)


RECORD_FORM: Final = ManifestForm(
    index="a record index",
    remedy="Restore the file, or build the index again (`lakeward index drop TABLE --type record` and `lakeward index "
    "build TABLE --type record`): it is made of the table alone.",
    version=1,
    document_of=_document,
    manifest_of=_manifest,
    number_of=number_of,
    rows=ManifestRows("files", lambda row: (row[4], row[-1])),
)


def open_manifest(storage: Storage, folder: str) -> tuple[str, RecordManifest]:
    """The newest manifest of the index, and the folder that it is in. Raises `Refused` where there is no index,
    `BrokenFile` and `Unsupported`."""
    found = find_manifest(storage, folder)
    if found is None:
        raise Refused(
            "The table has no record index of Lakeward's.",
            why=f"There is none in {folder}.",
            remedy="Build it: `lakeward index build TABLE --type record`. Hudi's is the type metadata.",
        )
    return found


def find_manifest(storage: Storage, folder: str) -> tuple[str, RecordManifest] | None:
    """The same; None where there is no index."""
    for _ in range(_LOOKS):
        try:
            manifest = RECORD_FORM.read_newest(storage, folder)
            if manifest is None or manifest.is_dropped:
                return None
            if manifest.moved_to is None:
                return folder, manifest
            at = join(folder, manifest.moved_to)
            moved = RECORD_FORM.read_newest(storage, at)
            if moved is not None:
                return at, moved
        except NotFound:
            pass  # it was replaced and deleted between the listing and the reading
    return None


_LOOKS = 3
