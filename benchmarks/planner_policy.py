"""What rules for compacting cost against the best that could have been done, replayed over sizes, without data.

    python -m benchmarks.planner_policy [--seed N] [--draws N]

A trace of one file group has 140 writes, each of which leaves a log, and reads between them. A rule is asked after
each write and may merge the newest logs into one (LOG), or all with the base (FULL). The unit of cost is what
reading 1 MiB costs a job:

    a job      `job` + bytes read + 1.5 x bytes written; `job` is 0.5 or 5
    a read     for each log that it meets `open` + `merge` x bytes; the base costs each rule the same and is left out
    sizes      logs of n bytes over `hot` bytes of rows are merged into hot x (1 - e^(-n/hot)); the base grows by
               `INSERTS` of what was written
    sources    where they *stay*, readers go on opening each log that a LOG has merged, until the next FULL, and in the
               layout `lsm_tree` they read it, too

The optimum knows all writes and reads to come: `services/compaction/simulation/optimum.py`, which `lakeward simulate`
has too. No rule can be cheaper under the same jobs.

Seven families of traces, `--draws` of each: base 64 MiB to 1 GiB, hot rows 5 to 100 % of it, writes of 0.1 to 4 MiB,
0.2 to 5 reads a write, each drawn on a logarithmic scale, but for *cold* (a read in a hundred writes) and *hot* (20).

"RFC-103" is Lakeward's planner with the settings of a daemon that has no objective, asked at each fifth write, which is
when its trigger fires. The figures are in benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import keep_report, machine
from lakeward.services.compaction.plan.decision import Choice
from lakeward.services.compaction.plan.pay_back import HORIZON
from lakeward.services.compaction.plan.planner import HybridCompactionPlanGenerator
from lakeward.services.compaction.simulation.optimum import least_costs
from lakeward.table.timeline.timeline_reader import LogCompaction
from tests.synthetic_table import TOKEN, completed, file_group, minute, snapshot_of

Floats = NDArray[np.float64]
MIB = 1024 * 1024
GROUP = "0-0"

WRITES = 140
WRITE = 1.5
"""What writing 1 MiB costs a job, where reading it costs 1."""
INSERTS = 0.2
EVERY = 5
"""Writes between two questions to RFC-103's rules, and to Hudi's (hoodie.compact.inline.max.delta.commits)."""
FAMILIES = ("uniform", "bursty writes", "bursty reads", "phases", "heavy tail", "cold", "hot")
LAYOUTS = ("sources go", "sources stay", "lsm_tree, sources stay")


@dataclass(frozen=True, slots=True)
class Trace:
    base: float
    hot: float
    job: float
    open: float
    merge: float
    writes: Floats
    """MiB."""
    reads: Floats
    """After each write, before the next."""
    sizes: Floats = field(default_factory=lambda: np.empty(0))
    """MiB of one component over the writes from i to b, both included; 0 is the base."""
    reading: Floats = field(default_factory=lambda: np.empty(0))
    """What a read pays for that component."""


def with_sizes(trace: Trace, layout: str) -> Trace:
    count = len(trace.writes)
    written = np.concatenate([[0.0], np.cumsum(trace.writes)])
    spans = np.maximum(written[None, :] - np.concatenate([[0.0], written[:-1]])[:, None], 0.0)
    sizes = trace.hot * -np.expm1(-spans / trace.hot)
    leaves = np.arange(1, count + 1)
    sizes[leaves, leaves] = trace.writes
    reading = trace.open + trace.merge * sizes
    if layout != LAYOUTS[0]:
        sources = np.maximum(np.arange(count + 1)[None, :] - np.arange(count + 1)[:, None] + 1, 0.0)
        sources[leaves, leaves] = 0.0
        reading = reading + trace.open * sources
        if layout == LAYOUTS[2]:
            reading = reading + trace.merge * np.where(sources > 0, spans, 0.0)
    sizes[0] = trace.base + INSERTS * written
    reading[0] = 0.0
    return replace(trace, sizes=sizes, reading=reading)


def draw(family: str, chance: np.random.Generator) -> Trace:
    def between(low: float, high: float) -> float:
        return math.exp(chance.uniform(math.log(low), math.log(high)))

    base, mean, rate = between(64, 1024), between(0.1, 4), between(0.2, 5)
    hot = base * between(0.05, 1)
    writes = mean * chance.uniform(0.5, 1.5, WRITES)
    reads = np.full(WRITES, {"cold": 0.01, "hot": 20.0}.get(family, rate))
    number = np.arange(WRITES)
    match family:
        case "bursty writes":
            writes *= np.where(number % 20 < 3, 5.0, 0.3)
        case "bursty reads":
            reads *= np.where(chance.random(WRITES) < 0.1, 8.0, 0.2)
        case "phases":
            reads *= np.where(number // 35 % 2, 0.1, 4.0)
            writes *= np.where(number // 35 % 2, 2.0, 0.5)
        case "heavy tail":
            writes = mean * (chance.pareto(1.3, WRITES) + 0.1)
    whole = np.diff(np.floor(np.concatenate([[0.0], np.cumsum(reads)]) + chance.random()))
    job, opening, merge = chance.choice([0.5, 5.0]), chance.choice([0.2, 1.0]), chance.choice([0.3, 1.0])
    return Trace(base, hot, float(job), float(opening), float(merge), writes, whole)


def optimum(trace: Trace) -> float:
    """The least that jobs and reads can cost together."""
    history = (trace.sizes[None], trace.reading[None], trace.reads[None])
    return float(least_costs(*history, job=trace.job, write=WRITE)[0])


Component = tuple[int, int]
"""The writes from first to last; the base is 0 and all that came into it."""


@dataclass(slots=True)
class Group:
    """A file group while it is replayed."""

    trace: Trace
    stack: list[Component] = field(default_factory=lambda: [(0, 0)])
    """The base, and the logs that readers merge, oldest first."""
    sources: list[Component] = field(default_factory=list)
    """The logs that LOGs have merged since the last FULL."""
    merged: list[LogCompaction] = field(default_factory=list)
    cost: float = 0.0

    @property
    def newest(self) -> int:
        return self.stack[-1][1]

    def write(self) -> None:
        self.stack.append((self.newest + 1, self.newest + 1))

    def read(self, times: float) -> None:
        self.cost += times * sum(float(self.trace.reading[component]) for component in self.stack)

    def job_cost(self, cut: int) -> float:
        sizes = self.trace.sizes
        read = sum(float(sizes[component]) for component in self.stack[cut:])
        return self.trace.job + read + WRITE * float(sizes[self.stack[cut][0], self.newest])

    def saved(self, cut: int) -> float:
        """What each later read saves."""
        reading = self.trace.reading
        before = sum(float(reading[component]) for component in self.stack[cut:])
        return before - float(reading[self.stack[cut][0], self.newest])

    def age(self, cut: int) -> int:
        """Writes since the lowest component that would be merged was written."""
        return self.newest - self.stack[cut][1]

    def merge(self, cut: int) -> None:
        self.cost += self.job_cost(cut)
        run = self.stack[cut:]
        self.stack[cut:] = [(run[0][0], self.newest)]
        if cut:
            self.sources += run
            self.merged.append(LogCompaction(instant(self.stack[-1]), frozenset(log_name(log) for log in run)))
        else:
            self.sources, self.merged = [], []


Rule = Callable[[Group, Sequence[float]], int | None]
"""Asked after a write, with the reads after each write before it. Gives the place in the stack from which on all is
merged."""


def by_cost(rate: Callable[[Trace, Sequence[float]], float]) -> Rule:
    """The cut with the greatest gain: what readers will save over half of the age of what is merged, less the job."""

    def rule(group: Group, reads: Sequence[float]) -> int | None:
        expected = rate(group.trace, reads)
        gains = [
            group.saved(cut) * expected * HORIZON * group.age(cut) - group.job_cost(cut)
            for cut in range(len(group.stack) - 1)
        ]
        return gains.index(max(gains)) if max(gains) > 0 else None

    return rule


def known(times: float) -> Rule:
    """The reads a write of the whole trace are known, so many times too high."""
    return by_cost(lambda trace, reads: times * float(trace.reads.mean()))


def rent_or_buy(group: Group, reads: Sequence[float]) -> int | None:
    """The lowest cut whose job readers have paid for by its not having been done; what they pay grew from nothing."""
    for cut in range(len(group.stack) - 1):
        if (age := group.age(cut)) and group.saved(cut) * sum(reads[-age:]) / 2 > group.job_cost(cut):
            return cut
    return None


def as_hudi(group: Group, reads: Sequence[float]) -> int | None:
    return None if group.newest % EVERY else 0


def as_rfc_103(group: Group, reads: Sequence[float]) -> int | None:
    if group.newest % EVERY:
        return None
    sizes = group.trace.sizes
    base = (instant(group.stack[0]), round(float(sizes[group.stack[0]]) * MIB))
    logs = [(instant(log), round(float(sizes[log]) * MIB)) for log in (*group.stack[1:], *group.sources)]
    writes = chain.from_iterable(completed(minute(2 * number), "deltacommit") for number in range(1, group.newest + 1))
    snapshot = snapshot_of(
        [file_group("p", GROUP, base=base, logs=logs)], writes, log_compactions={("p", GROUP): tuple(group.merged)}
    )
    found = HybridCompactionPlanGenerator().generate(snapshot, at=minute(2 * group.newest + 1)).operations
    if not found:
        return None
    (operation,) = found
    if operation.operation_type == Choice.FULL:
        return 0
    names = [log_name(log) for log in group.stack]
    return min(names.index(name) for name in operation.log_files if name in names)


def instant(component: Component) -> str:
    """A merge follows a write before the next."""
    first, last = component
    return minute(2 * last + (first != last))


def log_name(component: Component) -> str:
    return f".{GROUP}_{instant(component)}.log.1_{TOKEN}"


RULES: Mapping[str, Rule] = {
    "Hudi's default, FULL at every 5th write": as_hudi,
    "RFC-103, asked at every 5th write": as_rfc_103,
    "rent or buy": rent_or_buy,
    "by cost, reads of the last 20 writes": by_cost(lambda _, reads: statistics.fmean(reads[-20:]) if reads else 1.0),
    "by cost, reads known": known(1),
    "by cost, four times too high": known(4),
    "by cost, four times too low": known(1 / 4),
    "by cost, 16 times too high": known(16),
    "by cost, 16 times too low": known(1 / 16),
    "by cost, one read a write assumed": by_cost(lambda trace, reads: 1.0),
    "by cost, one read in five writes assumed": by_cost(lambda trace, reads: 0.2),
}


def cost_of(trace: Trace, rule: Rule) -> float:
    group = Group(trace)
    reads: list[float] = []
    for times in trace.reads.tolist():
        group.write()
        if (cut := rule(group, reads)) is not None:
            group.merge(cut)
        group.read(times)
        reads.append(times)
    return group.cost


def ratios(layout: str, seed: int, draws: int) -> dict[str, dict[str, list[float]]]:
    """What each rule costs over the optimum, by family."""
    found: dict[str, dict[str, list[float]]] = {rule: {family: [] for family in FAMILIES} for rule in RULES}
    for family in FAMILIES:
        for number in range(draws):
            chance = np.random.default_rng([seed, FAMILIES.index(family), number])
            trace = with_sizes(draw(family, chance), layout)
            least = optimum(trace)
            for name, rule in RULES.items():
                cost = cost_of(trace, rule)
                assert cost >= least * (1 - 1e-9), f"{name} is better than the optimum on {family} {number}"
                # A trace that nothing reads costs nothing, so that any job is too much.
                found[name][family].append(round(cost / least, 3) if least else 1.0)
    return found


def lines(found: Mapping[str, Mapping[str, Sequence[float]]]) -> Iterator[str]:
    yield f"| cost over optimum | {' | '.join(FAMILIES)} | mean | median | p95 | max |"
    yield f"|---|{'---:|' * (len(FAMILIES) + 4)}"
    for rule, families in found.items():
        every = sorted(chain.from_iterable(families.values()))
        means = [statistics.fmean(families[family]) for family in FAMILIES]
        p95 = every[math.ceil(0.95 * len(every)) - 1]
        figures = [*means, statistics.fmean(every), statistics.median(every), p95, every[-1]]
        yield f"| {rule} | {' | '.join(f'{figure:.2f}' for figure in figures)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--draws", type=int, default=10, help="traces of each family")
    arguments = parser.parse_args()
    before = machine()
    figures = {}
    for layout in LAYOUTS:
        figures[layout] = ratios(layout, arguments.seed, arguments.draws)
        print(f"\n{layout}\n", *lines(figures[layout]), sep="\n", flush=True)
    print(keep_report("planner-policy", before, {"seed": arguments.seed, "ratios": figures}))


if __name__ == "__main__":
    main()
