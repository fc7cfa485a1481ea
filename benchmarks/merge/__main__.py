"""`make bench`: merges of file slices of many shapes, by Lakeward and by others on the same rows, in turn in one run.

    python -m benchmarks.merge [--scale 0.01] [--shapes typical,wide] [--sides lakeward,floor] [--times 2] [--all-peers]

Each side is a process of its own, and merges one slice on one core: Lakeward with its checks (it reads back what it
wrote) and without, the floor (`benchmarks/merge/floor.py`), a copy of the base file, DataFusion, DuckDB, Hudi's
`run_compaction`, Paimon's `sys.compact`. Hudi and Paimon start a JVM and Spark, which is not counted; they run where a
goal names them, and with `--all-peers` everywhere. Of `--times` rounds each side's best by CPU is kept. A side that
cannot be had, or does not run on a shape, is named with the reason. The rows of all outputs are compared; if one side
has other rows, that is said and the exit code is 1.

Touches: a temporary folder, some GB at full scale; writes `benchmarks/results/merge-<time>.json`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.measure import keep_report, machine, measure
from benchmarks.merge.files import SliceFiles, write_slice
from benchmarks.merge.goals import all_reached, as_table, why_without_figures
from benchmarks.merge.shape import SHAPES
from benchmarks.merge.sides import CHECKED, PAIMON, SIDES, UNCHECKED

SCALE_MIN = 0.5
OWN = (CHECKED, UNCHECKED)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0, help="of all rows; 0.01 takes seconds")
    parser.add_argument("--shapes", help=f"some of {', '.join(SHAPES)}, with commas between; default: all")
    parser.add_argument("--sides", help=f"some of {', '.join(SIDES)}; default: all")
    parser.add_argument("--times", type=int, default=1, help="rounds; the best of each side is kept")
    parser.add_argument("--all-peers", action="store_true", help="Hudi and Paimon on every shape")
    arguments = parser.parse_args()
    shapes = chosen(parser, arguments.shapes, list(SHAPES))
    sides = chosen(parser, arguments.sides, list(SIDES))
    about_machine = machine()
    results: dict[str, dict[str, Any]] = {}
    workload: dict[str, Any] = {}
    for name in shapes:
        with tempfile.TemporaryDirectory(prefix="lakeward-bench-") as folder:
            files = write_slice(Path(folder, "slice"), SHAPES[name].scaled(arguments.scale))
            shape = files.shape
            workload[name] = {
                "says": shape.says,
                "base_rows": shape.base_rows,
                "logs": shape.logs,
                "log_rows": shape.log_rows,
                "columns": len(shape.columns),
                "input_bytes": files.input_bytes,
            }
            results[name] = compare(files, sides, arguments.times, all_peers=arguments.all_peers)
        say(name, workload[name], results[name])
    reached = all_reached(results)
    print(as_table(reached))
    if arguments.scale < SCALE_MIN:
        print(f"At --scale {arguments.scale:g} the first use of code counts: full scale has other ratios.")
    figures = {
        "scale": arguments.scale,
        "times": arguments.times,
        "workload": workload,
        "shapes": results,
        "goals": [asdict(each) | {"is_met": each.is_met} for each in reached],
    }
    print(f"Written to {keep_report('merge', about_machine, figures)}", file=sys.stderr)
    return int(any("other_rows" in side for sides in results.values() for side in sides.values()))


def chosen(parser: argparse.ArgumentParser, words: str | None, known: list[str]) -> list[str]:
    names = known if words is None else words.split(",")
    if unknown := [name for name in names if name not in known]:
        parser.error(f"{', '.join(unknown)}: none of {', '.join(known)}")
    return names


def compare(files: SliceFiles, sides: list[str], times: int, *, all_peers: bool) -> dict[str, Any]:
    """Each side's best figures, or why it has none."""
    # Checked first: its output is what the others' rows are held against, and what the floor encodes.
    best: dict[str, Any] = {CHECKED: {}}
    rows: tuple[int, str] | None = None
    for round_ in range(times):
        for name in dict.fromkeys([CHECKED, *sides]):
            why = SIDES[name].left_out(name, files.shape, all_peers=all_peers)
            if why is not None:
                best[name] = {"left_out": why}
                continue
            if round_ and why_without_figures(best[name]) is not None:
                continue
            print(f"{files.shape.name}: {name} ...", file=sys.stderr)
            found = run(name, files)
            if why_without_figures(found) is None and found["path"]:
                path = Path(found.pop("path"))
                if rows is None:
                    rows = (found["rows"], found["digest"])
                    shutil.copyfile(path, files.survivors)
                elif rows != (found["rows"], found["digest"]):
                    found["other_rows"] = f"{found['rows']} rows, {rows[0]} expected, or other values"
                path.unlink()
            if not best.get(name) or found.get("cpu_seconds", 0) < best[name].get("cpu_seconds", 0):
                best[name] = found
    return best


def run(name: str, files: SliceFiles) -> dict[str, Any]:
    try:
        if name == PAIMON:
            measure([sys.executable, "-m", "benchmarks.merge.by_paimon", str(files.folder)])
        cost, printed = measure([sys.executable, "-m", "benchmarks.merge.sides", name, str(files.folder)])
    except subprocess.CalledProcessError as error:
        if name in OWN:
            raise
        return {"failed": f"exit code {error.returncode}; its words are above"}
    found: dict[str, Any] = json.loads(printed.strip().splitlines()[-1])
    return found | {"process": asdict(cost), "input_bytes": files.input_bytes}


def say(name: str, workload: dict[str, Any], sides: dict[str, Any]) -> None:
    print(
        f"{name}: {workload['says']}; {workload['base_rows']:,} base rows, {workload['logs']} logs of"
        f" {workload['log_rows']:,} rows, {workload['columns']} columns, {workload['input_bytes'] / 1e6:.0f} MB"
    )
    print(f"  {'':19} {'seconds':>8} {'CPU s':>8} {'peak MB':>8} {'output MB':>9} {'rows':>10}")
    for side, figures in sides.items():
        if (why := why_without_figures(figures)) is not None:
            print(f"  {side:19} {'-':>8}  not run: {why}")
            continue
        peak, output = figures["peak_rss_bytes"] / 1e6, figures["output_bytes"] / 1e6
        remark = f"OTHER ROWS: {figures['other_rows']}" if "other_rows" in figures else figures.get("merged_by", "")
        print(
            f"  {side:19} {figures['seconds']:8.2f} {figures['cpu_seconds']:8.2f} {peak:8.0f}"
            f" {output:9.1f} {figures['rows']:10,}  {remark}"
        )
        if "warm" in figures:
            warm = figures["warm"]
            peak = warm["peak_rss_bytes"] / 1e6
            print(f"  {'  its JVM warm':19} {warm['seconds']:8.2f} {warm['cpu_seconds']:8.2f} {peak:8.0f}")
    print(flush=True)


if __name__ == "__main__":
    sys.exit(main())
