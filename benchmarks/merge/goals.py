"""What is asked of the merge, and what a run reached: ratios of one side to another on one shape.

CPU seconds are compared where both sides have one core; wall time where the other is a JVM, as its users wait for it.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.merge.shape import SHAPES, Shape
from benchmarks.merge.sides import CHECKED, COPY, DATAFUSION, DUCKDB, FLOOR, HUDI, PAIMON, UNCHECKED

Figures = Mapping[str, Any]
Sides = Mapping[str, Figures]
"""Side -> its figures, or why it has none."""


@dataclass(frozen=True, slots=True)
class Reached:
    """One goal on one shape."""

    goal: str
    shape: str
    asked: float
    at_least: bool
    """Else at most."""
    reached: float | None
    unit: str = "x"
    why_not: str = ""

    @property
    def is_met(self) -> bool | None:
        if self.reached is None:
            return None
        return self.reached >= self.asked if self.at_least else self.reached <= self.asked


def all_reached(shapes: Mapping[str, Sides]) -> list[Reached]:
    return [each for name, sides in shapes.items() for each in _of_shape(SHAPES[name], sides)]


def _of_shape(shape: Shape, sides: Sides) -> Iterator[Reached]:
    if shape.is_log_operation:
        for side, words in ((UNCHECKED, "checks off"), (CHECKED, "checks on")):
            yield _speed_of_log(shape, sides, side, words)
        return
    if not shape.base_sorted:
        yield _ratio(shape, sides, "CPU of the merge by hashes / floor, checks off", UNCHECKED, FLOOR, 1.75, most=True)
    elif shape.runs <= 65:
        bound = 1.2 if shape.runs <= 8 else 1.4
        yield _ratio(shape, sides, "CPU / floor, checks off", UNCHECKED, FLOOR, bound, most=True)
        yield _ratio(
            shape, sides, "CPU / (floor + one decode of the output), checks on", CHECKED, FLOOR, 1.2, most=True
        )
    yield _ratio(shape, sides, "CPU / DataFusion's, checks off", UNCHECKED, DATAFUSION, 1.0, most=True)
    yield _ratio(shape, sides, "DuckDB's CPU / Lakeward's, checks off", DUCKDB, UNCHECKED, 2.0)
    if shape.name == "sparse-clustered":
        yield _ratio(shape, sides, "speed / that of copying the file, checks off", COPY, UNCHECKED, 0.5, of="seconds")
    if shape.name == "typical":
        yield _ratio(shape, sides, "Hudi's seconds / Lakeward's, checks off", HUDI, UNCHECKED, 10, of="seconds")
        yield _ratio(shape, sides, "Hudi's seconds / Lakeward's, checks on", HUDI, CHECKED, 8, of="seconds")
        yield _ratio(shape, sides, "the same, Hudi's JVM warm", HUDI, CHECKED, 8, of="seconds", warm=True)
        yield _ratio(shape, sides, "peak memory / Hudi's", CHECKED, HUDI, 0.25, of="peak_rss_bytes", most=True)
        yield _speed_of_decoding(shape, sides)
    if shape.name in ("parquet-8-runs", "lsm-8-runs"):
        yield _ratio(shape, sides, "Paimon's seconds / Lakeward's, checks off", PAIMON, UNCHECKED, 2, of="seconds")
        yield _ratio(shape, sides, "Paimon's seconds / Lakeward's, checks on", PAIMON, CHECKED, 2, of="seconds")
        yield _ratio(shape, sides, "the same, Paimon's JVM warm", PAIMON, CHECKED, 2, of="seconds", warm=True)


def _ratio(
    shape: Shape,
    sides: Sides,
    goal: str,
    above: str,
    below: str,
    asked: float,
    *,
    of: str = "cpu_seconds",
    most: bool = False,
    warm: bool = False,
) -> Reached:
    """`above` / `below`. `most`: at most this is asked."""
    for side in (above, below):
        if (why := why_without_figures(sides.get(side))) is not None:
            return Reached(goal, shape.name, asked, not most, None, why_not=f"{side}: {why}")
    upper, lower = sides[above], sides[below]
    value = float(upper["warm"][of] if warm else upper[of])
    divisor = float(lower[of])
    if goal.endswith("checks on") and below == FLOOR:
        divisor += lower["output_decode_cpu_seconds"]
    return Reached(goal, shape.name, asked, not most, value / divisor)


def why_without_figures(side: Figures | None) -> str | None:
    """Why there are no figures of a side; None where there are."""
    if side is None:
        return "was not asked for"
    return next((str(side[word]) for word in ("missing", "left_out", "failed") if word in side), None)


def _speed_of_log(shape: Shape, sides: Sides, side: str, words: str) -> Reached:
    kind = "compressed" if shape.parquet_blocks else "uncompressed"
    goal = f"LOG, {kind} input a second of a core, {words}"
    if (why := why_without_figures(sides.get(side))) is not None:
        return Reached(goal, shape.name, 100, True, None, " MB", f"{side}: {why}")
    figures = sides[side]
    return Reached(goal, shape.name, 100, True, figures["input_bytes"] / figures["cpu_seconds"] / 1e6, " MB")


def _speed_of_decoding(shape: Shape, sides: Sides) -> Reached:
    goal = "Avro records decoded a second of a core"
    if (why := why_without_figures(sides.get(FLOOR))) is not None:
        return Reached(goal, shape.name, 5, True, None, " M", f"{FLOOR}: {why}")
    floor = sides[FLOOR]
    return Reached(goal, shape.name, 5, True, floor["log_rows"] / floor["log_decode_cpu_seconds"] / 1e6, " M")


def as_table(reached: list[Reached]) -> str:
    """What a stranger reads: each goal, what is asked, what was reached."""
    lines = [f"{'goal':58} {'shape':17} {'asked':>11} {'reached':>9}"]
    for each in reached:
        asked = f"{'≥' if each.at_least else '≤'} {each.asked:g}{each.unit}"
        if each.reached is None:
            lines.append(f"{each.goal:58} {each.shape:17} {asked:>11} {'-':>9}  {each.why_not}")
        else:
            found = f"{each.reached:.2f}{each.unit}"
            lines.append(f"{each.goal:58} {each.shape:17} {asked:>11} {found:>9}  {'yes' if each.is_met else 'NO'}")
    return "\n".join(lines)
