"""Tables of a scripted workload, written by Lakeward on a clock of its own, and recorded by `lakeward record`.

    python -m benchmarks.recorded_traces

Makes benchmarks/traces, which `benchmarks/policy_on_traces.py` replays:

    orders     a write in each ten minutes for a day, 400 rows of which a fifth is new, newest keys the most
    devices    bursts of 12 writes in as many minutes, four hours apart, for two days, to a twentieth of all keys

Each has 20,000 rows at the beginning, in 4 partitions of 2 buckets.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

from lakeward.cli.main import run
from lakeward.index.index_type import IndexType
from tests.clocks import SettableClock
from tests.write.writing import Row, new_table, write

TRACES = Path(__file__).parent / "traces"
BEGINS = 1_790_812_800
"""2026-10-01."""
MINUTE = 60
LETTERS = "0123456789abcdef"


def row(chance: random.Random, key: int, moment: int) -> Row:
    return (f"k{key:08}", moment, f"p{key % 4}", "".join(chance.choices(LETTERS, k=200)))


def orders(chance: random.Random) -> Iterator[tuple[int, list[Row]]]:
    newest = 20_000
    yield 0, [row(chance, key, 0) for key in range(newest)]
    for number in range(1, 145):
        keys = {newest - 1 - int(chance.expovariate(1 / 3000)) % newest for _ in range(320)}
        keys |= set(range(newest, newest + 80))
        newest += 80
        yield number * 10 * MINUTE, [row(chance, key, number) for key in sorted(keys)]


def devices(chance: random.Random) -> Iterator[tuple[int, list[Row]]]:
    yield 0, [row(chance, key, 0) for key in range(20_000)]
    for number in range(1, 145):
        burst, place = divmod(number, 12)
        keys = {chance.randrange(1000) * 20 for _ in range(600)}
        yield burst * 240 * MINUTE + place * MINUTE, [row(chance, key, number) for key in sorted(keys)]


def main() -> None:
    for name, rows in (("orders", orders), ("devices", devices)):
        with tempfile.TemporaryDirectory() as folder:
            table = new_table(Path(folder) / "t", has_metadata_table=False)
            for seconds, batch in rows(random.Random(name)):
                write(table, batch, clock=SettableClock(BEGINS + seconds), index=IndexType.BUCKET, buckets=2)
            file = TRACES / f"{name}.json"
            file.unlink(missing_ok=True)
            assert run(["record", str(table), "--to", str(file), "--last", "400d", "--timezone", "UTC"]) == 0


if __name__ == "__main__":
    main()
