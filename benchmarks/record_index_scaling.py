"""`python -m benchmarks.record_index_scaling`: the two ways in which a record index grows, side by side.

Simulated are entries by their counts, a commit of 100,000 new keys at a time, to 100 M of them; how it grows is decided
by `index/record/index_growth` itself. With skew a share of the keys has one value of the first hash, which a further
hash tells apart. A bucket is compacted when its deltas have a quarter of what its base file has: that is what is
counted as rewritten.

Touches: writes `benchmarks/results/record-index-scaling-<time>.json`.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.measure import keep_report, machine
from lakeward.index.record.index_growth import GroupLoad, OpenGroup, Scaling, ScalingWay, grow

_COMMIT = 100_000
_DELTA_SHARE = 0.25
_HASHES = 1 << 20
"""Values of a hash that buckets distinguish."""


class SimulatedIndex:
    def __init__(self, scaling: Scaling, buckets: int, skew: float, seed: int) -> None:
        self.scaling, self.buckets, self.skew = scaling, buckets, skew
        self._random = np.random.default_rng(seed)
        self.chains: list[list[list[int]]] = [[[0] for _ in range(buckets)]]
        """Entries of each file group, by group of buckets and bucket, the open one last."""
        self._bases = np.zeros(buckets)
        self.rewritten = self.entries = 0

    def commit(self) -> None:
        newest = self.chains[-1]
        hashes = self._random.integers(0, _HASHES, _COMMIT)
        if len(self.chains) == 1:
            hashes[: int(_COMMIT * self.skew)] = 0
        for bucket, count in enumerate(np.bincount(hashes % len(newest), minlength=len(newest)).tolist()):
            newest[bucket][-1] += count
        self.entries += _COMMIT
        self._compact()
        self._grow()

    def _compact(self) -> None:
        held = np.array([chain[-1] for chain in self.chains[-1]])
        due = (held > 0) & (held - self._bases >= _DELTA_SHARE * self._bases)
        self.rewritten += int(held[due].sum())
        self._bases[due] = held[due]

    def _grow(self) -> None:
        loads = [GroupLoad(number, [chain[-1] for chain in group]) for number, group in enumerate(self.chains)]
        steps = grow(loads, self.scaling)
        if isinstance(steps, OpenGroup):
            self.chains.append([[0] for _ in range(steps.buckets)])
            self._bases = np.zeros(steps.buckets)
        else:
            for seal in steps or ():
                self.chains[-1][seal.bucket].append(0)
                self._bases[seal.bucket] = 0

    def figures(self) -> dict[str, Any]:
        sizes = np.array([size for group in self.chains for chain in group for size in chain])
        return {
            "entries": self.entries,
            "file_groups": int((sizes > 0).sum()),
            "largest_file": int(sizes.max()),
            "asked_present": round(self._asked_of_present(), 2),
            "asked_absent": round(float(self._asked_of_absent().mean()), 2),
            "asked_worst": int(self._asked_of_absent().max()),
            "rewritten_per_entry": round(self.rewritten / self.entries, 2),
        }

    def _asked_of_present(self) -> float:
        """Filters that are asked for a key that is there, on average: newest first, until it is found."""
        total = 0.0
        later = 0.0
        for group in reversed(self.chains):
            for chain in group:
                total += sum(size * (later + number + 1) for number, size in enumerate(reversed(chain)))
            later += float(np.mean([len(chain) for chain in group]))
        return total / self.entries

    def _asked_of_absent(self) -> npt.NDArray[np.float64]:
        """Filters that are asked for a key that is not there, by bucket of the first group."""
        others = sum(float(np.mean([len(chain) for chain in group])) for group in self.chains[1:])
        return np.array([len(chain) for chain in self.chains[0]]) + others


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.record_index_scaling", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--entries", type=int, default=100_000_000)
    parser.add_argument("--expected", type=int, default=10_000_000, help="rows that the first buckets were made for")
    parser.add_argument("--seed", type=int, default=19)
    arguments = parser.parse_args()
    buckets = -(-arguments.expected * 13 // 10_000_000)
    kept = []
    for skew in (0.0, 0.05, 0.2):
        for way in ScalingWay:
            index = SimulatedIndex(Scaling(way), buckets, skew, arguments.seed)
            for wanted in (arguments.expected, arguments.entries // 3, arguments.entries):
                while index.entries < wanted:
                    index.commit()
                kept.append({"way": str(way), "skew": skew, **index.figures()})
                print(kept[-1])
    workload = {"buckets": buckets, "commit": _COMMIT, "seed": arguments.seed}
    keep_report("record-index-scaling", machine(), {"workload": workload, "figures": kept})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
