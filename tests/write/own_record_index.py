"""A record index of Lakeward's below a table, and writes that use it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa

from lakeward.base.paths import join
from lakeward.index.index_type import IndexType
from lakeward.index.location import LOCATIONS, PARTITION_PATH, RECORD_KEY
from lakeward.index.overlay import current_index
from lakeward.index.record.record_options import RecordOptions
from lakeward.protocol.index.record_index_writer import RecordIndexWriter, moved_record_index
from lakeward.services.indexing.run.index_build import build_index, update_and_tidy
from lakeward.services.indexing.run.index_update import IndexUpdate
from lakeward.storage.local import LocalStorage
from lakeward.storage.storage import Storage
from lakeward.table.snapshot import TableSnapshot
from lakeward.write.request import FileSizes
from tests.index.builds import in_process
from tests.index.following import Place, places
from tests.index.record.reopened_record_index import new_record_index
from tests.our_reader import scan
from tests.write.test_whole_write import CLOCK
from tests.write.writing import Row, new_table, write

STORAGE = LocalStorage()
FIRST: list[Row] = [("k1", 1, "p", "a"), ("k2", 1, "p", "a"), ("k3", 1, "q", "a")]


def opened(base: Path, snapshot: TableSnapshot, storage: Storage = STORAGE) -> RecordIndexWriter:
    return RecordIndexWriter.of(storage, snapshot, RecordOptions().folder(str(base)))


def built(
    path: Path,
    table_type: str = "MERGE_ON_READ",
    *,
    rows: Sequence[Row] = FIRST,
    is_global: bool = True,
    buckets: int = 3,
) -> Path:
    """A table with these rows, and its index."""
    base = new_table(path, table_type=table_type)
    write(base, rows, clock=CLOCK)
    new_record_index(Path(RecordOptions().folder(str(base))), is_global=is_global, buckets=buckets)
    build_index(STORAGE, partial(opened, base), lambda: scan(base), in_process(base))
    return base


def catch_up(base: Path) -> IndexUpdate:
    return update_and_tidy(STORAGE, partial(opened, base), lambda: scan(base))


def build_again(base: Path) -> None:
    """Another process rebuilds the index beside the one that is there, and puts it into its place."""
    folder = Path(RecordOptions().folder(str(base)))
    name = f"built-{len(list(folder.glob('manifest-*')))}"
    new_record_index(folder / name, buckets=2)
    beside = partial(RecordIndexWriter.of, STORAGE, folder=join(str(folder), name))
    build_index(STORAGE, beside, lambda: scan(base), in_process(base))
    moved_record_index(STORAGE, str(folder), name)


def write_by(base: Path, rows: Any, operation: str = "upsert", *, storage: Storage = STORAGE, **request: Any) -> str:
    by = {"index": IndexType.RECORD, "open_index": lambda snapshot: opened(base, snapshot, storage)}
    by |= {"clock": CLOCK, "sizes": FileSizes(small_file=0), "storage": storage}
    return write(base, rows, operation, **(by | request)).instant


def located(base: Path, keys: Collection[str], **bound: int) -> list[tuple[str, Place]]:
    """The places in which the index says that the keys are, with what it does not have."""
    snapshot = scan(base)
    return places(current_index(STORAGE, snapshot, opened(base, snapshot), **bound), keys)


@dataclass(frozen=True)
class AskedIndex:
    """An index, and a folder in which a file has each lookup: the number of the part, and the keys."""

    index: Any
    folder: Path

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "index"), name)

    def look_up(self, storage: Storage, part: Any, keys: pa.Array | None) -> Iterator[pa.RecordBatch]:
        number = part if isinstance(part, int) else part.number
        shown = {"part": number, "keys": None if keys is None else keys.to_pylist()}
        (self.folder / uuid4().hex).write_text(json.dumps(shown))
        yield from self.index.look_up(storage, part, keys)

    def asked(self) -> list[tuple[int, list[str]]]:
        shown = [json.loads(path.read_text()) for path in self.folder.iterdir()]
        return sorted((each["part"], sorted(each["keys"])) for each in shown)


def plant(base: Path, key: str, options: RecordOptions | None = None) -> None:
    """Let the index say that the key is gone, as if the first commit of the table had reported it."""
    snapshot = scan(base)
    index = RecordIndexWriter.of(STORAGE, snapshot, (options or RecordOptions()).folder(str(base)))
    gone = pa.RecordBatch.from_pylist([{RECORD_KEY: key, PARTITION_PATH: "p"}], LOCATIONS)
    index.update(snapshot.timeline.completed_writes[0].time, [gone], completed=None)
