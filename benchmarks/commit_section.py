"""How long a compaction, and an archiving, hold the table lock, by what, and how much memory they take.

    python -m benchmarks.commit_section [--groups N] [--runs N] [--seed N] [--folder PATH]

One table (`benchmarks.indexed_table`) with statistics of 20 columns and bloom filters of every file in its metadata
table. Each run compacts a copy of it in a process of its own (`benchmarks.commit_section_process`), where operations do
not merge but get a file with its statistics: what is measured is what they have in common. The plans: FULL for 1, 100
and all file groups, LOG for all.

    schedule   the plan was made before; under the lock the timeline is compared, and the plan written
    claim      the same plan is scanned once more, and begun
    commit     files in, metadata table's commit, commit

and archiving 10 and 100 instants, written before all others, each a delta commit into 2 of 15 file groups:

    batch 1    the choice is made again, the rows published, 50 instants deleted; the next ones likewise

Seconds are those of the lock without the skew wait, in which nothing is done. Bounds: 2 s for each at the largest plan,
and 1 GB of memory, by the median of the runs. Prints JSON and writes it to `benchmarks/results`; exits 1 when a bound
is broken. Syncing is a part of it, so the folder must be on a disk.

Touches: a temporary folder (25,000 names at 5,000 groups), `benchmarks/results/commit-section-<time>.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC
from pathlib import Path
from typing import Any

from benchmarks.commit_section_process import ARCHIVE
from benchmarks.indexed_table import COLUMNS, IndexedTable
from benchmarks.measure import machine, write_report
from lakeward.format.timeline.instant import State, format_instant_time, instant_file_name, parse_instant_time
from lakeward.services.compaction.plan.compaction_type import CompactionType

HELD_SECONDS_MAX = 2.0
RSS_MB_MAX = 1000.0
SOME_OPERATIONS = (1, 100)
ARCHIVED = (10, 100)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", type=int, default=5000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where tables are made; where temporary files are, unless given")
    arguments = parser.parse_args()
    began = machine()
    cases = []
    with tempfile.TemporaryDirectory(prefix="commit-section-", dir=arguments.folder) as folder:
        table = IndexedTable(Path(folder, "table"), arguments.groups, arguments.seed)
        everything = [(kind, arguments.groups) for kind in (CompactionType.FULL, CompactionType.LOG)]
        for kind, operations in [*((CompactionType.FULL, some) for some in SOME_OPERATIONS), *everything]:
            groups = [file_id for _, file_id in table.groups[:operations]] if operations < arguments.groups else []
            runs = [run(table.base, Path(folder, "copy"), kind, groups) for _ in range(arguments.runs)]
            cases.append({"kind": kind, **summary(runs)})
            print(json.dumps(cases[-1]), file=sys.stderr)
        write_earlier_commits(table.base, max(ARCHIVED))
        for instants in ARCHIVED:
            runs = [run(table.base, Path(folder, "copy"), ARCHIVE, [str(instants)]) for _ in range(arguments.runs)]
            cases.append({"kind": ARCHIVE, **summary(runs)})
            print(json.dumps(cases[-1]), file=sys.stderr)
    within = all(
        case["peak_rss_mb"] <= RSS_MB_MAX and max(each["seconds"] for each in case["held"].values()) <= HELD_SECONDS_MAX
        for case in cases
    )
    report: dict[str, Any] = {
        "file_groups": arguments.groups,
        "columns": len(COLUMNS),
        "runs": arguments.runs,
        "seed": arguments.seed,
        "cases": cases,
        "bounds": {"held_seconds": HELD_SECONDS_MAX, "peak_rss_mb": RSS_MB_MAX},
        "within_bounds": within,
    }
    write_report("commit-section", began, report)
    return 0 if within else 1


def write_earlier_commits(base: Path, number: int) -> None:
    """Delta commits before all others, a second apart, that say what the first one says."""
    timeline = base / ".hoodie" / "timeline"
    content = min(timeline.glob("*.deltacommit")).read_bytes()
    first = parse_instant_time(min(path.name for path in timeline.glob("*_*")).partition("_")[0], UTC)
    for earlier in range(1, number + 1):
        instant, completed = (format_instant_time(first - 1000 * earlier + ms, UTC) for ms in (0, 500))
        for state in (State.REQUESTED, State.INFLIGHT):
            (timeline / instant_file_name(instant, "deltacommit", state, 2)).touch()
        (timeline / f"{instant}_{completed}.deltacommit").write_bytes(content)


def run(table: Path, copy: Path, kind: str, what: Sequence[str]) -> dict[str, Any]:
    """Work on a copy of the table, whose files are the same ones under a second name: nothing is written in place."""
    shutil.copytree(table, copy, copy_function=os.link)
    os.sync()
    command = [sys.executable, "-m", "benchmarks.commit_section_process", str(copy), kind, *what]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    finally:
        shutil.rmtree(copy)
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def summary(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Medians; the steps are those of the fastest run."""
    held = {}
    for hold in runs[0]["holds"]:
        each = sorted((run["holds"][hold] for run in runs), key=lambda found: found["seconds"])
        held[hold] = {
            "seconds": round(statistics.median(found["seconds"] for found in each), 3),
            "fastest_seconds": round(each[0]["seconds"], 3),
            "cpu_seconds": round(statistics.median(found["cpu_seconds"] for found in each), 3),
            "fastest_cpu_seconds": round(min(found["cpu_seconds"] for found in each), 3),
            "steps": {step: round(spent["seconds"], 3) for step, spent in each[0]["steps"].items()},
        }
    return {
        "operations": runs[0]["operations"],
        "peak_rss_mb": round(statistics.median(run["peak_rss_mb"] for run in runs), 1),
        "work_seconds": round(statistics.median(run["seconds"] for run in runs), 1),
        "held": held,
    }


if __name__ == "__main__":
    sys.exit(main())
