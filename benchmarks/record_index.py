"""`python -m benchmarks.record_index`: lookups in one bucket of the record index, and making it, on one core.

A bucket has a million keys of 36 characters in its base file, and, as a shape of its own, the last four commits of
10,000 keys each on top. Looked up are 100,000 keys, nine in ten of which are there: *cold* the files are opened again,
and the system is asked to forget them; *warm* their blocks are at hand. Beside it, on the same keys: LMDB, and a binary
search in a sorted array in memory, which is the floor. All sides' answers are held against each other.

Touches: a temporary folder, some 200 MB; writes `benchmarks/results/record-index-<time>.json`.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.measure import keep_report, machine
from lakeward.index.location import FILE_ID, LOCATIONS
from lakeward.index.record.block_cache import BlockCache
from lakeward.index.record.bucket import Bucket
from lakeward.index.record.bucket_file import BucketFile
from lakeward.index.record.bucket_writer import BucketFileWriter
from lakeward.index.record.created_with import KeyScope
from lakeward.index.record.record_options import LookupMode, LookupOptions
from lakeward.storage.local import LocalStorage

_BATCH = 65_536
_FILE_GROUPS = 200
_DELTAS, _DELTA_KEYS = 4, 10_000
_POINTS = 5_000
_ENTRY_BYTES = 22
_KEPT = 8
"""Deltas of a bucket until they are merged."""
_SHARES = (0.001, 0.01, 0.05, 0.1, 0.2, 0.35, 0.5, 1.0)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.record_index", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--times", type=int, default=50)
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    entries, wanted, times = arguments.entries, arguments.keys, arguments.times
    random = np.random.default_rng(19)
    texts = _keys(random, entries + wanted)
    chosen = random.permutation(len(texts))
    there = np.sort(texts[chosen[:entries]])
    asked = np.concatenate(
        [random.choice(there, wanted * 9 // 10, replace=False), texts[chosen[entries:]][: wanted // 10]]
    )
    random.shuffle(asked)
    keys = _text(asked)
    figures: dict[str, Any] = {"entries": entries, "keys": wanted, "times": times}
    with tempfile.TemporaryDirectory(prefix="lakeward-bench-") as folder, ExitStack() as open_files:
        base = Path(folder) / "base.hfile"
        batches = _batches(there, 0)
        seconds, size = min(_timed(lambda: _write(base, batches)) for _ in range(3))
        figures["build"] = {"keys_per_second": round(entries / seconds), "bytes_per_entry": round(size / entries, 1)}
        deltas = []
        for number in range(_DELTAS):
            deltas.append(Path(folder) / f"delta-{number}.hfile")
            _write(deltas[-1], _batches(np.sort(random.choice(there, _DELTA_KEYS, replace=False)), number + 1))
        for shape, files in (("base file", [base]), ("base file and 4 deltas", [*reversed(deltas), base])):
            figures[shape] = _lookups(files, keys, times, points=keys.slice(0, _POINTS))
        figures["cold by share"] = _by_share(base, keys, there, random)
        expected = _answers(Bucket([_opened(base, BlockCache())], scope=KeyScope.GLOBAL).look_up(keys))
        figures["a delta, as a file and as a block of a log"] = _deltas_kept(Path(folder) / "logs")
        figures["lmdb"] = _lmdb(open_files, Path(folder) / "lmdb", there, asked, times, expected)
        figures["floor: binary search in memory"] = _floor(there, asked, times, len(expected))
    for name, each in figures.items():
        print(f"{name}: {each}")
    keep_report("record-index", machine(), figures)
    return 0


def _keys(random: np.random.Generator, count: int) -> npt.NDArray[np.bytes_]:
    digits = np.frombuffer(random.bytes(16 * count).hex().encode(), dtype="S1").reshape(count, 32)
    dash = np.full((count, 1), b"-", dtype="S1")
    parts = [digits[:, start:end] for start, end in ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))]
    joined = np.hstack([each for part in parts for each in (part, dash)][:-1])
    return np.unique(np.ascontiguousarray(joined).view("S36").reshape(count))


def _text(keys: npt.NDArray[np.bytes_]) -> pa.Array:
    offsets = np.arange(len(keys) + 1, dtype=np.int32) * keys.dtype.itemsize
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(keys).view(np.uint8))]
    return pa.Array.from_buffers(pa.string(), len(keys), buffers)


def _batches(keys: npt.NDArray[np.bytes_], generation: int) -> list[pa.RecordBatch]:
    numbers = (np.arange(len(keys)) * 7919 + generation) % _FILE_GROUPS
    partitions = pa.array([f"day={number % 20:02}" for number in range(_FILE_GROUPS)]).take(pa.array(numbers))
    ids = pa.array([f"{number:08}-7f4c-4a5e-9c39-1f6c2f0a55d1-0" for number in range(_FILE_GROUPS)])
    texts = _text(keys)
    instants = pa.nulls(len(keys), pa.string())
    rows = pa.RecordBatch.from_arrays([texts, partitions, ids.take(pa.array(numbers)), instants], schema=LOCATIONS)
    return [rows.slice(start, _BATCH) for start in range(0, len(rows), _BATCH)]


def _write(path: Path, batches: list[pa.RecordBatch]) -> int:
    with path.open("wb") as sink:
        writer = BucketFileWriter(sink, scope=KeyScope.GLOBAL, with_instants=False)
        for batch in batches:
            writer.add(batch)
        size = writer.finish().size_bytes
        os.fsync(sink.fileno())
    return size


def _opened(path: Path, cache: BlockCache | None) -> BucketFile:
    return BucketFile(path.open("rb"), length=path.stat().st_size, name=path.name, instant="1", cache=cache)


def _lookups(files: list[Path], keys: pa.Array, times: int, *, points: pa.Array) -> dict[str, Any]:
    def cold() -> int:
        with _forgotten(files):
            return int(
                Bucket([_opened(file, BlockCache()) for file in files], scope=KeyScope.GLOBAL).look_up(keys).num_rows
            )

    cache = BlockCache()
    bucket = Bucket(
        [_opened(file, cache) for file in files], scope=KeyScope.GLOBAL, options=LookupOptions(LookupMode.SEEK)
    )
    found = bucket.look_up(keys).num_rows
    point_cache = BlockCache()
    pointed = Bucket([_opened(file, point_cache) for file in files], scope=KeyScope.GLOBAL)
    singles = [points.slice(number, 1) for number in range(len(points))]
    seconds = [_timed(lambda key=key: pointed.look_up(key).num_rows)[0] for key in singles]  # type: ignore[misc]
    return {
        "found": found,
        "cold": _spread([_timed(cold)[0] for _ in range(times)]),
        "warm": _spread([_timed(lambda: bucket.look_up(keys).num_rows)[0] for _ in range(times)]),
        "one key": _spread(seconds),
        "cache_bytes": cache.nbytes,
    }


def _by_share(
    base: Path, keys: pa.Array, there: npt.NDArray[np.bytes_], random: np.random.Generator
) -> dict[str, dict[str, float]]:
    """Seconds of a cold lookup of a share of the entries, sought and scanned: the best of five."""
    found = {}
    for share in _SHARES:
        some = _text(random.choice(there, max(1, int(len(there) * share)), replace=False))
        found[f"{share:.1%}"] = {
            mode.value: round(min(_timed(lambda: _cold(base, some, mode))[0] for _ in range(5)), 4)  # noqa: B023
            for mode in (LookupMode.SEEK, LookupMode.SCAN)
        }
    return found


def _cold(base: Path, keys: pa.Array, mode: LookupMode) -> int:
    with _forgotten([base]):
        bucket = Bucket([_opened(base, BlockCache())], scope=KeyScope.GLOBAL, options=LookupOptions(mode))
        return int(bucket.look_up(keys).num_rows)


@contextmanager
def _forgotten(files: list[Path]) -> Iterator[None]:
    """The system is asked to let go of the files' pages."""
    for file in files:
        with file.open("rb") as opened:
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    yield


def _deltas_kept(folder: Path) -> dict[str, dict[str, float]]:
    """Milliseconds of a delta by its entries, of eight that are written and, once they were merged, deleted: each a
    file of its own, and each a block of one log. The best of five."""
    storage = LocalStorage()
    folder.mkdir()
    found = {}
    for entries in (100, 1_000, 10_000, 30_000, 100_000):
        content = os.urandom(_ENTRY_BYTES * entries)

        def files(content: bytes = content) -> None:
            for number in range(_KEPT):
                with storage.open_output(f"{folder}/{number}") as sink:
                    sink.write(content)
            for number in range(_KEPT):
                storage.delete(f"{folder}/{number}")

        def blocks(content: bytes = content) -> None:
            with storage.open_output(f"{folder}/log") as sink:
                sink.write(content)
            for number in range(1, _KEPT):
                storage.append(f"{folder}/log", content, at=number * len(content))
            storage.delete(f"{folder}/log")

        best = {name: [_timed(work)[0] for _ in range(5)] for name, work in (("file", files), ("block", blocks))}
        found[f"{entries:,}"] = {name: round(min(each) * 1000 / _KEPT, 2) for name, each in best.items()}
    return found


def _answers(found: pa.RecordBatch) -> dict[str, str]:
    return dict(zip(found.column(0).to_pylist(), found.column(FILE_ID).to_pylist(), strict=True))


def _lmdb(
    open_files: ExitStack,
    folder: Path,
    there: npt.NDArray[np.bytes_],
    asked: npt.NDArray[np.bytes_],
    times: int,
    expected: dict[str, str],
) -> dict[str, Any]:
    store = open_files.enter_context(lmdb.open(str(folder), map_size=1 << 30))
    values = [value.as_py().encode() for batch in _batches(there, 0) for value in batch.column(FILE_ID)]
    pairs = list(zip(there.tolist(), values, strict=True))

    def fill() -> int:
        with store.begin(write=True) as changes:
            changes.cursor().putmulti(pairs, append=True)
        return len(pairs)

    seconds, _ = _timed(fill)
    wanted = asked.tolist()

    def look_up() -> list[tuple[bytes, bytes]]:
        with store.begin() as view:
            return list(view.cursor().getmulti(wanted))

    def one(key: bytes) -> bytes | None:
        with store.begin() as view:
            found: bytes | None = view.get(key)
            return found

    assert {key.decode(): value.decode() for key, value in look_up()} == expected, "equal answers"
    size = sum(each.stat().st_size for each in folder.glob("data.mdb"))
    return {
        "build": {"keys_per_second": round(len(pairs) / seconds), "bytes_per_entry": round(size / len(pairs), 1)},
        "warm": _spread([_timed(look_up)[0] for _ in range(times)]),
        "one key": _spread([_timed(lambda key=key: one(key))[0] for key in wanted[:_POINTS]]),  # type: ignore[misc]
    }


def _floor(there: npt.NDArray[np.bytes_], asked: npt.NDArray[np.bytes_], times: int, found: int) -> dict[str, Any]:
    def look_up() -> int:
        at = np.minimum(np.searchsorted(there, asked), len(there) - 1)
        return int((there[at] == asked).sum())

    assert look_up() == found, "equal answers"
    return {"warm": _spread([_timed(look_up)[0] for _ in range(max(3, times // 10))])}


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.perf_counter()
    made = work()
    return time.perf_counter() - begin, made


def _spread(seconds: list[float]) -> dict[str, float]:
    milliseconds = np.array(seconds) * 1000
    return {f"p{part}_ms": round(float(np.percentile(milliseconds, part)), 3) for part in (50, 95, 99)}


if __name__ == "__main__":
    raise SystemExit(main())
