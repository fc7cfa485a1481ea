"""Writes of Hudi's, made again by Lakeward: its files and its commits, and of each the metadata table's part by our
writer.

    hudis    Hudi writes: insert, upsert, delete, …; a copy of the table is kept after each
    own      the table after the first write, and then for each further one: its files and its pending instant, our
             delta commit in the metadata table, its completed instant

So both tables have the same files under the same instants, and what the two say of them in the metadata table can be
compared to the last name. In the end all that is in the metadata table of `own` since birth is
Lakeward's.

Touches: two table folders, one through Spark.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from lakeward.format.avro.schema import without_meta_columns
from lakeward.format.file_name import parse_base_file, parse_log_file
from lakeward.format.metadata.base_file_stats import read_column_stats
from lakeward.format.metadata.codec import metadata_codec
from lakeward.format.metadata.key import column_stats_key
from lakeward.format.metadata.log_file import MetadataBlock, metadata_blocks
from lakeward.format.metadata.record import ColumnStatsRecord, MetadataRecord
from lakeward.format.timeline.commit_metadata import read_commit_metadata
from lakeward.protocol.attempts.attempt_files import attempt_folder
from lakeward.protocol.metadata.changes import NewFile
from lakeward.protocol.metadata.indexed_by_write import indexed_by_write
from lakeward.protocol.metadata.key_changes import ChangedKeys, WriteChanges
from lakeward.protocol.metadata.metadata_writer import DeltaCommitWriter
from lakeward.read.newest_slice import newest_slice, table_reading
from lakeward.read.slice_keys import slice_keys
from lakeward.storage.local import LocalStorage
from lakeward.table.index_definitions import IndexedColumns
from lakeward.table.snapshot import TableSnapshot
from tests.clocks import SkippingClock
from tests.our_reader import scan

METADATA = Path(".hoodie/metadata")
TIMELINE = Path(".hoodie/timeline")


@dataclass(frozen=True)
class Written:
    """What a commit has in one partition of the metadata table."""

    records: Mapping[str, MetadataRecord]
    deleted: frozenset[str]


def written(table: Path, instant: str, partition: str) -> Written:
    records: dict[str, MetadataRecord] = {}
    deleted: set[str] = set()
    for path in sorted((table / METADATA / partition).glob(f".*_{instant}.log.*")):
        if parse_log_file(path.name) is None:
            continue
        with path.open("rb") as file:
            for block in metadata_blocks(file, path.stat().st_size, path.name):
                assert isinstance(block, MetadataBlock) and block.instant == instant
                deleted |= set(block.deleted_keys)
                if block.hfile is not None:
                    codec = metadata_codec(block.schema_json or "")
                    records |= {key.decode(): codec.decode(value, path.name) for key, value in block.hfile.entries()}
    return Written(records, frozenset(deleted))


def places(snapshot: TableSnapshot) -> dict[str, tuple[str, str]]:
    """Partition path and file id of each key."""
    storage, found = LocalStorage(), {}
    reading = table_reading(snapshot, merges=True)
    for group in snapshot.file_groups:
        slice_ = newest_slice(group.slices)
        if slice_ is not None:
            for keys in slice_keys(storage, reading, slice_):
                found |= dict.fromkeys(keys.to_pylist(), (group.partition_path, group.file_id))
    return found


def completed_file(table: Path, folder: Path, instant: str) -> Path:
    (found,) = (path for path in (table / folder).glob(f"{instant}_*commit") if not path.name.startswith("."))
    return found


def replay(own: Path, hudis: Path, instant: str) -> None:
    """Lakeward's table goes one write further: to what `hudis` is.

    Args:
        hudis: the table after that write.
    """
    for file in hudis.rglob("*"):
        name = file.relative_to(hudis)
        is_of_timeline = name.parts[0] == ".hoodie" and (name.parent != TIMELINE or instant not in name.name)
        if file.is_file() and not is_of_timeline and not (own / name).exists():
            (own / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, own / name)
    done, metadata_done = (completed_file(hudis, at, instant) for at in (TIMELINE, METADATA / ".hoodie/timeline"))
    (own / TIMELINE / done.name).unlink()
    publish(own, hudis, instant, completion_time=metadata_done.name.partition(".")[0].partition("_")[2])
    shutil.copy2(done, own / TIMELINE / done.name)


def publish(own: Path, hudis: Path, instant: str, *, completion_time: str) -> None:
    """The metadata table's part of the write, by us."""
    storage, before, after = LocalStorage(), scan(own), scan(hudis)
    done = completed_file(hudis, TIMELINE, instant)
    commit = read_commit_metadata(done.read_bytes(), file=done.name, layout=2)
    replaced = tuple((path, each) for path, ids in (commit.partition_to_replace_file_ids).items() for each in ids)
    schema = without_meta_columns(commit.schema or "")
    indexed = indexed_by_write(storage, before, schema).indexed
    files = [
        new_file(hudis, stat.partition_path or "", (stat.path or "").rpartition("/")[2], indexed, instant)
        for stats in commit.partition_to_write_stats.values()
        for stat in stats
    ]
    folder = Path(attempt_folder(str(own), instant, 1))
    folder.mkdir(parents=True)
    for file in files:
        shutil.copy2(hudis / file.partition_path / file.name, folder / file.name)
    old, new = places(before), places(after)
    moved = {key: place for key, place in new.items() if old.get(key) != place}
    gone = {key: place for key, place in old.items() if new.get(key) != place and place not in replaced}
    write = WriteChanges(
        schema,
        keys=(*_changed(folder, moved, False), *_changed(folder, gone, True)),
        replaced=replaced,
        deleted_partitions=tuple(dict(replaced)) if commit.operation_type == "DELETE_PARTITION" else (),
    )
    writer = DeltaCommitWriter(storage, instant, folder=str(folder), number=1, measured=indexed, clock=SkippingClock())
    writer.prepare(before, files, write=write)
    staged = writer.stage(scan(own), files, write=write, fence=lambda: None)
    staged.publish(completion_time, is_pending=lambda: True, fence=lambda: None)
    shutil.rmtree(folder.parent)


def new_file(table: Path, partition: str, name: str, indexed: IndexedColumns | None, instant: str) -> NewFile:
    """A file of the write; the statistics of a log are Hudi's own, since the handle that wrote it makes them."""
    path = table / partition / name
    base, log = parse_base_file(name), parse_log_file(name)
    if indexed is None:
        assert base is not None or log is not None
        return NewFile(partition, (base or log).file_id, name, path.stat().st_size, ())
    if base is not None:
        with path.open("rb") as source:
            stats = read_column_stats(source, indexed.columns, file_name=name, version=indexed.version)
        return NewFile(partition, base.file_id, name, path.stat().st_size, tuple(stats))
    assert log is not None
    records = written(table, instant, "column_stats").records
    keys = [column_stats_key(column, partition, name) for column in indexed.columns]
    found = (records[key] for key in keys if key in records)
    of_log = tuple(record for record in found if isinstance(record, ColumnStatsRecord))
    return NewFile(partition, log.file_id, name, path.stat().st_size, of_log)


def _changed(folder: Path, keys: Mapping[str, tuple[str, str]], is_gone: bool) -> list[ChangedKeys]:
    found = []
    for number, partition in enumerate(sorted({path for path, _ in keys.values()})):
        path = folder / f"{is_gone}-{number}.keys.arrow"
        of = [(key, None if is_gone else file_id) for key, (where, file_id) in keys.items() if where == partition]
        table = pa.table(
            {
                "key": pa.array([key for key, _ in of], pa.string()),
                "file_id": pa.array([id_ for _, id_ in of], pa.string()),
            }
        )
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as out:
            out.write_table(table)
        found.append(ChangedKeys(partition, str(path)))
    return found
