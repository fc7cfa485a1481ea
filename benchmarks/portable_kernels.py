"""What kernels lose where they are compiled for any processor, rather than for that of the machine.

    python -m benchmarks.portable_kernels [--runs N]

The kernels that have most to lose, one core: hashing keys for a bloom filter and looking them up, gathering rows,
hashing rows, sorting keys. Each processor has a process of its own, in turn, N times; the figure is the best CPU time
of all runs, so that a busy machine says the same. Every side finds and gathers the same.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite.binding

from benchmarks.measure import machine, write_report

PROCESSORS = {"this one": None, "x86-64-v3": "x86-64-v3", "generic": "generic"}
KEYS, SEED = 200_000, 20261128
REPEATS = 5


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--measure", action="store_true", help="measure in this process, and print what it took")
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(_measured()))
        return 0
    around = machine()
    best: dict[str, dict[str, float]] = {}
    answers = set()
    with tempfile.TemporaryDirectory(prefix="lakeward-kernels-") as folder:
        for _ in range(arguments.runs):
            for name, processor in PROCESSORS.items():
                run = _run(Path(folder, name.replace(" ", "-")), processor)
                answers.add(run.pop("answer"))
                best[name] = {what: min(took, best.get(name, {}).get(what, took)) for what, took in run.items()}
    assert len(answers) == 1, answers
    ratios = {
        name: {what: round(took / best["this one"][what], 2) for what, took in figures.items()}
        for name, figures in best.items()
    }
    write_report("portable-kernels", around, {"runs": arguments.runs, "cpu_seconds": best, "to_this_one": ratios})
    return 0


def _run(cache: Path, processor: str | None) -> dict[str, Any]:
    features = "" if processor else llvmlite.binding.get_host_cpu_features().flatten()
    environment = os.environ | {
        "NUMBA_CACHE_DIR": str(cache),
        "NUMBA_CPU_NAME": processor or llvmlite.binding.get_host_cpu_name(),
        "NUMBA_CPU_FEATURES": features,
    }
    command = [sys.executable, "-m", "benchmarks.portable_kernels", "--measure"]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    run: dict[str, Any] = json.loads(done.stdout)
    return run


def _measured() -> dict[str, Any]:
    import numpy as np
    import pyarrow as pa

    from lakeward.format.bloom_filter import BloomFilter
    from lakeward.merge.digest import with_hashes
    from lakeward.merge.rows.gather import RowSources
    from lakeward.merge.runs.sort_key import order_of

    random = np.random.default_rng(SEED)
    numbers = random.integers(0, 2**62, KEYS)
    keys = pa.array([f"trip-{number:019d}" for number in numbers], pa.string())
    others = pa.array([f"else-{number:019d}" for number in numbers], pa.string())
    columns = {f"c{n}": pa.array(random.integers(0, 1000, KEYS)) for n in range(6)}
    texts = {f"t{n}": pa.array([f"text {n} of {number % 977}" for number in numbers]) for n in range(4)}
    batch = pa.RecordBatch.from_pydict({"key": keys, **columns, **texts})
    half = KEYS // 2
    sources = RowSources([batch.slice(0, half), batch.slice(half)])
    batches, places = random.integers(0, 2, KEYS), random.integers(0, half, KEYS)
    offsets = np.frombuffer(keys.buffers()[1], dtype=np.int32)[: KEYS + 1].astype(np.int64)
    data = np.frombuffer(keys.buffers()[2], dtype=np.uint8)

    filled = BloomFilter(KEYS)
    filled.add(keys)
    rows = filled.to_base64()

    def asked() -> Any:
        again = BloomFilter.from_base64(rows.encode(), "DYNAMIC_V0")
        return again.has_all(keys), again.has_all(others)

    def added() -> Any:
        made = BloomFilter(KEYS)
        made.add(keys)
        return made.to_bytes()

    work: dict[str, Callable[[], Any]] = {
        "bloom filter, keys added": added,
        "bloom filter, keys asked": asked,
        "rows gathered": lambda: sources.gather(batches, places),
        "rows hashed": lambda: with_hashes(batch),
        "keys sorted": lambda: order_of(data, offsets),
    }
    figures: dict[str, Any] = {}
    digest = hashlib.sha256()
    for what, does in work.items():
        answer = does()
        if isinstance(answer, pa.RecordBatch):
            answer = answer.serialize().to_pybytes()
        digest.update(answer.tobytes() if hasattr(answer, "tobytes") else repr(answer).encode())
        took = []
        for _ in range(REPEATS):
            begin = time.process_time()
            does()
            took.append(time.process_time() - begin)
        figures[what] = round(min(took), 4)
    return {**figures, "answer": digest.hexdigest()}


if __name__ == "__main__":
    sys.exit(main())
