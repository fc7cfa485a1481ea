"""Tails of logs in any life of a slice: no key that a log has is ruled out, and one read rules out most others."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import BinaryIO, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.engine.task.native_log_output import NativeLogForm, NativeLogOutput
from lakeward.engine.task.operation_output import OutputPlace
from lakeward.format.file_name import parse_any_log
from lakeward.format.log.block import BlockType
from lakeward.format.log.log_tail import LogTailBuilder, TailPlace
from lakeward.format.log.log_writer import log_block_schema
from lakeward.format.log.native_log.footer import NativeLogFooter
from lakeward.index.bloom.log_tails import LogsBefore, covered_logs, may_be_in_logs, place_of_next
from lakeward.merge.rules.tombstones import Tombstones
from lakeward.storage.local import LocalStorage
from tests.format.log.test_log_writer import SCHEMA, SCHEMA_JSON, batch, writer_to
from tests.read.log_files import row
from tests.runs import NIGHTLY, runs

STORAGE = LocalStorage()


@dataclass
class Life:
    """One slice, and the writers of its logs."""

    folder: Path
    chance: Random
    keys: dict[str, frozenset[str]] = field(default_factory=dict)
    """The keys of each log that is there, the newest last."""
    base_instant: str = "100"
    pending: str | None = None
    clock: int = 100
    native: bool = False
    """Its logs are native: rows and deletes of a write are two files, and files of 500 rows are large."""

    @property
    def logs(self) -> tuple[tuple[str, int], ...]:
        return tuple((name, (self.folder / name).stat().st_size) for name in self.keys)

    def before(self) -> LogsBefore:
        return LogsBefore(str(self.folder), self.logs, self.base_instant, self.pending)

    def some_keys(self) -> frozenset[str]:
        most = self.chance.choice([1, 5, 40, 1500])
        return frozenset(
            f"k{self.chance.randrange(20_000)}\U00010000\ue000"[: self.chance.choice([6, 7, 8])] for _ in range(most)
        )

    def write(self, place: TailPlace | None, keys: frozenset[str], *, name: str | None = None) -> None:
        """
        Args:
            place: None for a log without a tail, as Hudi writes it.
        """
        self.clock += 1
        if self.native:
            self.write_native(place, keys, name)
            return
        name = name or f".group_{self.clock}.log.1_0-0-0"
        with (self.folder / name).open("wb") as sink:
            kind = self.chance.choice([BlockType.AVRO_DATA, BlockType.AVRO_DATA, BlockType.PARQUET_DATA])
            tail = None if place is None else LogTailBuilder(place, lists_keys=kind is BlockType.AVRO_DATA)
            writer = writer_to(sink, kind, tail=tail, block_bytes=self.chance.choice([4_000, 2**26]))
            rows = sorted(keys)
            gone = rows[: len(rows) // 3]
            if len(rows) > len(gone):
                writer.write(batch(*(row(key, 1, "x") for key in rows[len(gone) :])))
            if gone:
                writer.write_deletes(pa.array(gone), None, partition_path="p")
            writer.close()
        self.keys[name] = keys

    def write_native(self, place: TailPlace | None, keys: frozenset[str], in_place_of: str | None) -> None:
        rows = sorted(keys)
        gone = rows[: len(rows) // 3] if in_place_of is None else []
        rows = rows[len(gone) :]
        form = NativeLogForm(
            file_id="group",
            schema=SCHEMA,
            footer=NativeLogFooter(str(self.clock), log_block_schema(SCHEMA_JSON)),
            ordering_fields=(),
            indexed=None,
            file_bytes_max=None if place is None or place.merged or in_place_of else 20_000,
            row_group_bytes=2**20,
            tails=place,
        )
        attempt = self.folder / "attempt"
        attempt.mkdir(exist_ok=True)
        where = OutputPlace(str(self.folder), "", str(self.clock), 0, str(attempt), 0)
        with NativeLogOutput(STORAGE, where, form, task_attempt=0) as output:
            for start in range(0, max(len(rows), len(gone)), 500):
                if some := rows[start : start + 500]:
                    output.write_rows(batch(*(row(key, 1, "x") for key in some)))
                if some := gone[start : start + 500]:
                    output.write_deletes(Tombstones(pa.array(some), None))
            written = output.finish()
        for file in written:
            made = attempt / file.name.text
            name = in_place_of or file.name.text
            made.rename(self.folder / name)
            self.keys[name] = keys_of_file(self.folder / name)
        assert in_place_of is not None or frozenset().union(*(self.keys[each.name.text] for each in written)) == keys

    def step(self) -> None:
        kind = self.chance.choices(
            ["write", "foreign", "fork", "rollback", "merge", "schedule", "complete", "zombie"],
            [8, 2, 2, 2, 2, 1, 1, 1],
        )[0]
        if kind == "write":
            self.write(place_of_next(STORAGE, self.before()), self.some_keys())
        elif kind == "foreign":
            self.write(None, self.some_keys())
        elif kind == "fork":
            place = place_of_next(STORAGE, self.before())
            other = place_of_next(STORAGE, self.before())
            self.write(place, self.some_keys())
            self.write(other, self.some_keys())
        elif kind == "rollback" and self.keys:
            name = self.chance.choice(list(self.keys))
            (self.folder / name).unlink()
            del self.keys[name]
        elif kind == "merge" and len(self.keys) > 2:
            self.merge()
        elif kind == "schedule" and self.pending is None:
            self.clock += 1
            self.pending = str(self.clock)
        elif kind == "complete" and self.pending is not None:
            self.keys = {name: keys for name, keys in self.keys.items() if instant_of(name) > self.pending}
            self.base_instant, self.pending = self.pending, None
        elif kind == "zombie" and self.keys:
            name = self.chance.choice(list(self.keys))
            self.write(None, self.some_keys() | {"zombie"}, name=name)

    def merge(self) -> None:
        """A LOG of some logs side by side, whose sources stay or go."""
        names = list(self.keys)
        start = self.chance.randrange(len(names) - 1)
        sources = names[start : start + self.chance.randint(2, 5)]
        merged = covered_logs(STORAGE, str(self.folder), sources)
        keys = frozenset().union(*(self.keys[name] for name in sources))
        self.write(TailPlace(merged=merged, under=self.pending), keys)
        if self.chance.random() < 0.7:
            for name in sources:
                (self.folder / name).unlink()
                del self.keys[name]


def keys_of_file(path: Path) -> frozenset[str]:
    return frozenset(pq.read_table(path, columns=["_hoodie_record_key"]).column(0).to_pylist())


def instant_of(name: str) -> str:
    found = parse_any_log(name, native=True)
    assert found is not None
    return found.instant


@pytest.mark.parametrize("run", range(runs(24 if NIGHTLY else 8)))
def test_no_key_of_a_log_is_ruled_out(run: int, tmp_path: Path) -> None:
    """Writes, logs of writers without tails, forks, rollbacks and merges in mid-chain, compactions, and files that came
    back with other rows; inline logs of one and of many blocks, of Avro or Parquet and of deletes, native ones, and a
    slice that lived through an upgrade."""
    print(f"run {run}")
    life = Life(tmp_path, Random(run))
    native_from = life.chance.choice([0, 15, 30])
    for step in range(30):
        life.native = step >= native_from
        life.step()
        asked = sorted({f"k{life.chance.randrange(20_000)}"[:6] for _ in range(50)}.union(*life.keys.values()))
        asked = life.chance.sample(asked, min(len(asked), 200))
        there = frozenset().union(*life.keys.values()) if life.keys else frozenset()
        found = may_be_in_logs(STORAGE, str(tmp_path), life.logs, life.base_instant, pa.array(asked, pa.string()))
        missed = [key for key, is_found in zip(asked, found, strict=True) if key in there and not is_found]
        assert not missed


class Opened(LocalStorage):
    """Counts the files that are opened."""

    def __init__(self) -> None:
        super().__init__()
        self.opened = self.reads = 0

    def open_input(self, path: str) -> BinaryIO:
        self.opened += 1
        return cast(BinaryIO, _CountedReads(super().open_input(path), self))


class _CountedReads(io.RawIOBase):
    def __init__(self, file: BinaryIO, counts: Opened) -> None:
        self._file, self._counts = file, counts

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        self._file.close()
        super().close()

    def read(self, size: int = -1) -> bytes:
        self._counts.reads += 1
        return self._file.read(size)


@pytest.mark.parametrize("native", [False, True], ids=["inline", "native"])
def test_one_read_decides_for_a_clique(tmp_path: Path, native: bool) -> None:
    """The newest of six tails rules out keys that none of the logs has; a key of the oldest log is found."""
    life = Life(tmp_path, Random(5), native=native)
    writes = 3 if native else 6
    for log in range(writes):
        keys = frozenset(f"log{log}key{number}" for number in range(300 if native else 1_200))
        life.write(place_of_next(STORAGE, life.before()), keys)
    assert len(life.keys) == 6
    storage = Opened()
    absent = pa.array([f"log{number % writes}none{number}" for number in range(20)])
    assert not may_be_in_logs(storage, str(tmp_path), life.logs, "100", absent).any()
    assert storage.opened <= 2 and storage.reads == storage.opened, "one read of each end"
    found = may_be_in_logs(storage, str(tmp_path), life.logs, "100", pa.array(["log0key5", "log0key", "log9key1"]))
    assert found.tolist() == [True, False, False]


def test_a_log_of_another_clique_is_asked_by_itself(tmp_path: Path) -> None:
    life = Life(tmp_path, Random(5))
    life.write(TailPlace(), frozenset(["a"]))
    life.write(TailPlace(), frozenset(["b"]))
    storage = Opened()
    found = may_be_in_logs(storage, str(tmp_path), life.logs, "100", pa.array(["a", "b", "c"]))
    assert found.tolist() == [True, True, False] and storage.opened == 2


def test_a_tail_of_the_slice_before_speaks_for_its_own_log_alone(tmp_path: Path) -> None:
    """Once the compaction is there under which it was written, the next log begins a chain."""
    life = Life(tmp_path, Random(5), pending="150")
    for key in ("a", "b"):
        life.write(place_of_next(STORAGE, life.before()), frozenset([key]))
    assert place_of_next(STORAGE, life.before()).goes_on is not None
    life.base_instant, life.pending = "150", None
    assert place_of_next(STORAGE, life.before()) == TailPlace()
    found = may_be_in_logs(STORAGE, str(tmp_path), life.logs, "150", pa.array(["a", "b", "c"]))
    assert found.tolist() == [True, True, False]


def test_a_log_of_another_size_is_asked_by_itself(tmp_path: Path) -> None:
    """What covers a log of that name says nothing of it: a key is found that this rules out."""
    life = Life(tmp_path, Random(5))
    life.write(TailPlace(), frozenset(["a"]), name="first.log")
    life.write(place_of_next(STORAGE, life.before()), frozenset(["b"]))
    life.write(TailPlace(), frozenset(["later"]), name="first.log")
    assert may_be_in_logs(STORAGE, str(tmp_path), life.logs, "100", pa.array(["later"])).all()


def test_another_file_of_the_name_is_asked_by_itself(tmp_path: Path) -> None:
    """Its tail has another checksum, so what covers a log of that name and size says nothing of it."""
    life = Life(tmp_path, Random(5))
    keys = frozenset(f"k{number}" for number in range(10))
    life.write(TailPlace(), keys, name="first.log")
    life.write(place_of_next(STORAGE, life.before()), frozenset(["b"]))
    size = dict(life.logs)["first.log"]
    life.write(TailPlace(), frozenset(f"l{number}" for number in range(10)), name="first.log")
    assert dict(life.logs)["first.log"] == size
    found = may_be_in_logs(STORAGE, str(tmp_path), life.logs, "100", pa.array(["k1", "l1", "b"]))
    assert found.tolist() == [False, True, True]


def test_rows_alone_do_not_speak_for_what_they_were_merged_of(tmp_path: Path) -> None:
    """A native log compaction leaves two files, and some keys of the sources are in the file of deletes alone."""
    life = Life(tmp_path, Random(5), native=True)
    for log in range(2):
        life.write(place_of_next(STORAGE, life.before()), frozenset(f"log{log}key{number}" for number in range(30)))
    sources = list(life.keys)
    keys = frozenset().union(*life.keys.values())
    life.write(TailPlace(merged=covered_logs(STORAGE, str(tmp_path), sources)), keys)
    check_no_key_is_missed(life)
    *_, rows, deletes = life.keys
    assert (len(life.keys[rows]), len(life.keys[deletes])) == (40, 20)
    del life.keys[deletes]
    check_no_key_is_missed(life)


def check_no_key_is_missed(life: Life) -> None:
    there = frozenset().union(*life.keys.values())
    asked = sorted(there | {f"none{number}" for number in range(20)})
    found = may_be_in_logs(STORAGE, str(life.folder), life.logs, life.base_instant, pa.array(asked))
    assert [key for key, is_found in zip(asked, found, strict=True) if key in there and not is_found] == []


def test_writes_around_a_compaction(tmp_path: Path) -> None:
    """RFC-06's t1 to t5: two writes, a compaction scheduled, a write beside it, its end, a write behind it. The log of
    t4 covers those of the slice that it was written on, which its tail does not speak for once they are gone."""
    life = Life(tmp_path, Random(5))
    for time in ("t1", "t2"):
        life.write(place_of_next(STORAGE, life.before()), frozenset(f"{time}key{number}" for number in range(30)))
    t2 = list(life.keys)
    life.clock += 1
    life.pending = str(life.clock)
    life.write(place_of_next(STORAGE, life.before()), frozenset(f"t4key{number}" for number in range(30)))
    check_no_key_is_missed(life)
    for name in t2:
        (life.folder / name).unlink()
        del life.keys[name]
    life.base_instant, life.pending = life.pending, None
    place = place_of_next(STORAGE, life.before())
    assert place == TailPlace()
    life.write(place, frozenset(f"t5key{number}" for number in range(30)))
    check_no_key_is_missed(life)
    gone = pa.array([f"t1key{number}" for number in range(30)])
    assert may_be_in_logs(STORAGE, str(tmp_path), life.logs, life.base_instant, gone).sum() < 6


@pytest.mark.parametrize("native", [False, True], ids=["inline", "native"])
@pytest.mark.parametrize("kind", ["FULL", "LOG"])
def test_half_of_the_logs_are_compacted(tmp_path: Path, kind: str, native: bool) -> None:
    """RFC-06's logs 1 to 15 of 30, in three cliques, of which one lies on both sides of the cut."""
    life = Life(tmp_path, Random(5), native=native)
    for log in range(1, 31):
        if log == 16:
            life.clock += 1
            life.pending = str(life.clock)
        life.write(place_of_next(STORAGE, life.before()), frozenset(f"log{log}key{number}" for number in range(20)))
    names = list(life.keys)
    check_no_key_is_missed(life)
    merged = names[:15]
    if kind == "LOG":
        covered = covered_logs(STORAGE, str(tmp_path), merged)
        assert None not in {each.tail_crc for each in covered}
        keys = frozenset().union(*(life.keys[name] for name in merged))
        life.write(TailPlace(merged=covered, under=life.pending), keys)
        check_no_key_is_missed(life)
    else:
        assert life.pending is not None
        life.base_instant, life.pending = life.pending, None
    for name in merged:
        (tmp_path / name).unlink()
        del life.keys[name]
    check_no_key_is_missed(life)
    life.write(place_of_next(STORAGE, life.before()), frozenset(f"log31key{number}" for number in range(20)))
    check_no_key_is_missed(life)
