"""New keys in logs: which file groups take them, what finds them, and what is refused while they are there alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lakeward.base.errors import BrokenFile, Conflict, Refused, TryLater
from lakeward.index.doubled_keys import look_through
from lakeward.index.index import record_locations
from lakeward.index.index_type import IndexType
from lakeward.index.log_inserts import LogInserts, log_inserts_folder, read_log_inserts
from lakeward.index.metadata_record_index import MetadataRecordIndex
from lakeward.protocol.index.choices import publish_log_inserts
from lakeward.protocol.index.inserts import check_inserts
from lakeward.protocol.lock.lock_choice import stopped_writers_options
from lakeward.services.indexing.run.insert_choice import end_into_logs, let_into_logs
from lakeward.services.indexing.run.tails import choose_tails
from lakeward.services.metadata.run.removal import remove_metadata
from lakeward.storage.local import LocalStorage
from lakeward.table.new_table import COPY_ON_WRITE, NewIndex, NewIndexes
from tests.clocks import SkippingClock
from tests.crash.compacting import FULL, compact
from tests.crash.metadata_compacting import check_agrees
from tests.faults import FaultyStorage
from tests.metadata_golden import set_property
from tests.our_reader import read_rows, scan
from tests.processes import ScriptedProcesses
from tests.write.writing import new_table, rows_of, values, write

STORAGE = LocalStorage()
METADATA, SIMPLE = {"index": IndexType.METADATA}, {"index": IndexType.SIMPLE}
BLOOM = {"index": IndexType.BLOOM}


def made(base: Path, **said: Any) -> Path:
    """A table with a record index and one base file, whose new keys may go into logs."""
    new_table(base, indexes=NewIndexes(finds_keys=NewIndex.METADATA), **said)
    write(base, [("k0", 1, "p", "a")], **METADATA)
    let_into_logs(STORAGE, scan(base))
    return base


def check(base: Path) -> LogInserts:
    return check_inserts(STORAGE, str(base), lambda: scan(base), clock=SkippingClock())


def end(base: Path) -> LogInserts:
    return end_into_logs(STORAGE, str(base), lambda: scan(base))


def drop_metadata(base: Path) -> None:
    lock = stopped_writers_options(wait_seconds=0.0)
    remove_metadata(STORAGE, str(base), None, lock=lock, clock=SkippingClock(), processes=ScriptedProcesses())


def files(base: Path) -> tuple[int, int]:
    """Base files and logs of rows."""
    slices = [slice_ for group in scan(base).file_groups for slice_ in group.slices]
    return sum(slice_.base_file is not None for slice_ in slices), sum(len(slice_.row_logs) for slice_ in slices)


def found(base: Path, keys: Iterable[str]) -> set[str]:
    """The file groups that the record index names."""
    snapshot = scan(base)
    index = MetadataRecordIndex.of(STORAGE, snapshot, clock=SkippingClock())
    places = record_locations(STORAGE, index, rows_of([(key, 0, "", "") for key in keys]).column(0)).to_pylist()
    return {place["_lakeward_file_id"] for place in places}


@contextmanager
def unseen(base: Path) -> Iterator[None]:
    """What is written meanwhile is written as by a writer that knows nothing of inserts into logs."""
    there = Path(log_inserts_folder(str(base)))
    there.rename(aside := base.parent / "inserts")
    yield
    aside.rename(there)


@pytest.mark.parametrize("version", [8, 9, 10])
def test_small_inserts_make_no_new_base_files(tmp_path: Path, version: int) -> None:
    """Each commit is one more log; its keys are found there by the record index, and updated, deleted and moved as any;
    statistics and listings of the metadata table are those of the files."""
    base = made(tmp_path / "t", version=version)
    reports = [write(base, [(f"k{n}", 1, "p", "a"), ("k0", n + 1, "p", f"{n}")], **METADATA) for n in range(1, 6)]
    assert [(report.inserted, report.updated) for report in reports] == [(1, 1)] * 5
    assert files(base) == (1, 5)
    assert len(found(base, [f"k{n}" for n in range(6)])) == 1

    write(base, [("k1", 2, "p", "b")], **METADATA)
    write(base, [("k2", 9, "p", None)], "delete", **METADATA)
    write(base, [("k3", 2, "q", "c")], moves_rows=True, **METADATA)

    assert files(base) == (2, 8)
    assert values(read_rows(base)) == {"k0": "5", "k1": "b", "k3": "c", "k4": "a", "k5": "a"}
    assert found(base, ["k2"]) == set()
    assert len(found(base, ["k1", "k3"])) == 2
    check_agrees(base)
    assert check(base).through == scan(base).timeline.completed_writes[-1].completion_time


def test_a_key_that_came_back_is_found_again(tmp_path: Path) -> None:
    base = made(tmp_path / "t")
    write(base, [("k1", 5, "p", "a")], **METADATA)
    write(base, [("k1", 5, "p", None)], "delete", **METADATA)
    report = write(base, [("k1", 6, "p", "b")], **METADATA)

    assert report.inserted == 1
    assert values(read_rows(base)) == {"k0": "a", "k1": "b"}
    assert len(found(base, ["k1"])) == 1


def test_a_commit_that_doubled_a_key_is_reported(tmp_path: Path) -> None:
    """A writer by base files wrote k1 again. Keeps 1 of index/doubled_keys, Keeps 1 of protocol/index/inserts and Keeps
    7 of write/whole_write: it is refused until one of the two rows is gone, and then writes go on."""
    base = made(tmp_path / "t")
    write(base, [("k1", 1, "p", "a")], **METADATA)
    before = check(base)
    with unseen(base):
        write(base, [("k1", 2, "p", "b"), ("k2", 2, "p", "b")], **SIMPLE)

    for _ in range(2):
        with pytest.raises(Refused, match=r"doubled 1 key of .*: 'k1'\. It put 'k1' into a base file"):
            write(base, [("k3", 1, "p", "a")], **METADATA)
    assert read_log_inserts(STORAGE, str(base)) == before
    assert len(read_rows(base)) == 4

    rows = [("k0", 1, "p", "a"), ("k1", 2, "p", "b"), ("k2", 2, "p", "b")]
    write(base, rows, "insert_overwrite", **METADATA)
    write(base, [("k3", 1, "p", "a")], **METADATA)
    assert values(read_rows(base)) == {"k0": "a", "k1": "b", "k2": "b", "k3": "a"}


def test_commits_that_double_nothing_are_passed(tmp_path: Path) -> None:
    """Keeps 2 of index/doubled_keys: new keys of a writer by base files, and compactions, are looked through once, in
    their order. Keeps 2 of protocol/index/inserts: a second one that looked at the same time loses nothing."""
    base = made(tmp_path / "t")
    write(base, [("k1", 1, "p", "a")], **METADATA)
    with unseen(base):
        write(base, [("k2", 1, "p", "a"), ("k1", 1, "q", "a")], moves_rows=False, **SIMPLE)
    snapshot = scan(base)
    found = look_through(STORAGE, snapshot, after=None, clock=SkippingClock())
    # By the record index a key is one in the table, so the other partition counts.
    assert [(each.key, each.inserted[0], each.in_logs[0]) for each in found.doubled] == [("k1", "q", "p")]
    write(base, [], "delete_partition", partitions=("q",), **METADATA)

    said = read_log_inserts(STORAGE, str(base))
    publish_log_inserts(STORAGE, str(base), said, said)
    with pytest.raises(Conflict, match="changed the choice of where new keys go"):
        publish_log_inserts(STORAGE, str(base), said, said)
    newest = scan(base).timeline.completed_writes[-1].completion_time
    assert check(base).through == newest
    assert look_through(STORAGE, scan(base), after=newest, clock=SkippingClock()).commits == 0


def test_a_look_waits_for_a_write_that_hides_rows(tmp_path: Path) -> None:
    """Another writer is writing a base file onto one that a log went to meanwhile: until that write ends, no process
    can know what the file group holds. Then the look is for later, and nothing is wrong with the table."""
    base = made(tmp_path / "t")
    write(base, [("k1", 1, "p", "a")], **METADATA)
    with unseen(base):
        write(base, [("k2", 1, "q", "a")], **SIMPLE)
    began = scan(base).timeline.completed_writes[-1]
    write(base, [("k2", 2, "q", "b")], **METADATA)
    (hidden,) = (path for path in (base / "q").glob("*.parquet"))
    pending = f"{int(began.time) + 1}"
    for state in ("requested", "inflight"):
        (base / ".hoodie" / "timeline" / f"{pending}.deltacommit.{state}").touch()
    hiding = hidden.with_name(hidden.name.replace(began.time, pending))
    hiding.write_bytes(hidden.read_bytes())

    with pytest.raises(TryLater, match=f"cannot be known for now. The write {pending} has not ended") as seen:
        look_through(STORAGE, scan(base), after=None, clock=SkippingClock())
    assert seen.value.file_group is not None and seen.value.file_group[0] == "q"
    hiding.unlink()
    assert look_through(STORAGE, scan(base), after=None, clock=SkippingClock()).doubled == ()


def test_it_ends_where_no_key_is_in_logs_alone(tmp_path: Path) -> None:
    """Keeps 2 of services/indexing/run/insert_choice and Keeps 4 of write/assignment: until every log is compacted no
    key is looked for by base files, and the record index stays: Keeps 4 of services/metadata/run/removal."""
    base = made(tmp_path / "t")
    write(base, [("k1", 1, "p", "a")], **METADATA)
    for said in (check(base), end(base), end(base)):
        assert said.may_hold_keys
        for request in (SIMPLE, {"index": IndexType.GLOBAL_BLOOM}):
            with pytest.raises(Refused, match=r"is not written by the index .* while keys may be in logs alone"):
                write(base, [("k1", 2, "p", "b")], **request)
        with pytest.raises(Refused, match="The record index is not removed while keys may be in logs alone"):
            drop_metadata(base)
    write(base, [("k1", 2, "p", "b"), ("k2", 2, "p", "b")], **METADATA)
    assert files(base) == (2, 2), "what is known goes where it is, what is new into a base file"

    clock = SkippingClock()
    clock.slept = 60.0  # writes that skipped their waits completed a little later than now
    compact(base, FaultyStorage(), ScriptedProcesses(), FULL, clock=clock)
    assert not end(base).may_hold_keys
    write(base, [("k1", 3, "p", "c")], clock=clock, **SIMPLE)
    drop_metadata(base)
    assert values(read_rows(base)) == {"k0": "a", "k1": "c", "k2": "b"}
    assert not end(base).may_hold_keys


@pytest.mark.parametrize("tails", [False, True])
def test_bloom_looks_into_logs_where_lakeward_alone_writes(tmp_path: Path, tails: bool) -> None:
    """Keeps 4 of write/assignment: a key of a log is updated, deleted, and comes back, and is there once; after a
    writer by base files that came all the same, writes are refused until the key is there once again."""
    base = new_table(tmp_path / "t")
    write(base, [("k0", 1, "p", "a")], **BLOOM)
    let_into_logs(STORAGE, scan(base), only_lakeward=True)
    if tails:
        choose_tails(STORAGE, scan(base), are_written=True)
    reports = [write(base, [(f"k{n}", 1, "p", "a"), ("k0", n + 1, "p", f"{n}")], **BLOOM) for n in range(1, 5)]
    assert [(report.inserted, report.updated) for report in reports] == [(1, 1)] * 4
    assert files(base) == (1, 4)
    write(base, [("k2", 2, "p", None)], "delete", **BLOOM)
    write(base, [("k1", 2, "p", "b"), ("k1", 2, "q", "q"), ("k2", 3, "p", "b")], **BLOOM)
    assert [(row["id"], row["v"]) for row in read_rows(base) if row["part"] == "p"] == [
        ("k0", "4"), ("k1", "b"), ("k2", "b"), ("k3", "a"), ("k4", "a")
    ]  # fmt: skip
    with pytest.raises(Refused, match="is not written by the index simple while keys may be in logs alone"):
        write(base, [("k1", 3, "p", "c")], **SIMPLE)
    with unseen(base):
        write(base, [("k3", 3, "p", "c")], **SIMPLE)
    with pytest.raises(Refused, match=r"doubled 1 key of .*: 'k3'"):
        write(base, [("k9", 1, "p", "a")], **BLOOM)
    kept = [(row["id"], row["ts"], "p", row["v"]) for row in read_rows(base) if row["part"] == "p" and row["v"] != "c"]
    write(base, kept, "insert_overwrite", **BLOOM)
    clock = SkippingClock()
    clock.slept = 60.0
    compact(base, FaultyStorage(), ScriptedProcesses(), FULL, clock=clock)
    ended = end(base)
    assert not ended.may_hold_keys and not ended.only_lakeward
    write(base, [("k3", 5, "p", "d")], clock=clock, **SIMPLE)
    assert values([row for row in read_rows(base) if row["part"] == "p"])["k3"] == "d"


def test_a_write_that_is_under_way_keeps_it_from_ending(tmp_path: Path) -> None:
    """It may have read the choice before it was ended. Keeps 2 of services/indexing/run/insert_choice."""
    base = made(tmp_path / "t")
    requested = base / ".hoodie" / "timeline" / "20991231000000000.deltacommit.requested"
    requested.touch()
    assert end(base).may_hold_keys
    requested.unlink()
    assert not end(base).may_hold_keys


@pytest.mark.parametrize(
    ("said", "properties"),
    [({"table_type": COPY_ON_WRITE}, {}), ({}, {"hoodie.index.type": "SIMPLE"}), ({}, {"hoodie.index.type": "BUCKET"})],
)
def test_tables_that_are_not_let(tmp_path: Path, said: dict[str, Any], properties: dict[str, str]) -> None:
    """Keeps 1 of services/indexing/run/insert_choice: new keys have no log to go to, or would be lost sight of."""
    base = new_table(tmp_path / "t", **said)
    for name, value in properties.items():
        set_property(base, name, value)
    with pytest.raises(Refused, match="New keys do not go into logs of"):
        let_into_logs(STORAGE, scan(base))
    assert read_log_inserts(STORAGE, str(base)) == LogInserts()


def test_a_choice_that_is_damaged_is_refused(tmp_path: Path) -> None:
    """Keeps of index/log_inserts: no write takes it for one of a table of which nothing was said."""
    base = made(tmp_path / "t")
    newest = max(Path(log_inserts_folder(str(base))).iterdir())
    newest.write_bytes(newest.read_bytes()[:-9])
    with pytest.raises(BrokenFile, match="the choice of where new keys go"):
        write(base, [("k1", 1, "p", "a")], **METADATA)
