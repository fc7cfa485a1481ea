"""A daemon with nothing but `roots` and `writers` set keeps its objective, and writes no more than Hudi's defaults do.

A table of a few file groups is written to for days, on a clock that is moved by minutes. Its files have sizes and heads
and no rows: what is kept count of is which writes a base file holds.
"""

from __future__ import annotations

import os
import secrets
from collections import Counter
from datetime import UTC
from pathlib import Path
from random import Random

import pytest

from lakeward.config.file import load_settings
from lakeward.config.settings import Settings
from lakeward.engine.task.operation_spec import OperationKind, OperationResult, OperationSpec
from lakeward.engine.task.slice_check_spec import CheckedSlice
from lakeward.format.file_name import parse_log_file
from lakeward.format.timeline.commit_metadata import CommitMetadata, WriteStat, write_commit_metadata
from lakeward.format.timeline.instant import format_instant_time, parse_instant_time
from lakeward.services.verification import job
from tests.daemon.serving import Serving
from tests.our_reader import scan
from tests.simulation.data_files import SCHEMA, base_file, log_file
from tests.simulation.dispatcher import no_counts
from tests.simulation.writer import table_properties

pytestmark = pytest.mark.slow

MINUTE, DAY = 60.0, 86400.0
KIB, MIB = 1024, 1024**2

BASE_BYTES = {"hot": 300 * MIB, "warm": 200 * MIB, "cold": 250 * MIB, "small": 2 * MIB}
CHANCE = {"hot": 1.0, "warm": 0.5, "cold": 0.0, "small": 0.5}
"""How often a commit touches the group; the first one touches all."""
DAYS = 1.4
COMMIT_EVERY = 60 * MINUTE
STEP = 30 * MINUTE
HUDIS_DELTA_COMMITS = 5
"""hoodie.compact.inline.max.delta.commits, by default."""


class ByDefault(Serving):
    """With a configuration file as short as it may be."""

    @staticmethod
    def load(root: Path, state_folder: Path, settings: object, *, named: Path | None = None) -> Settings:
        file = root.parent / "lakeward.toml"
        file.write_text(f'[discovery]\nroots = ["{root}"]\n\n[locks]\nwriters = "share"\n')
        return load_settings(file, {}, {"service.state_folder": str(state_folder)})


class HudisDefault:
    """What Hudi would have written: after every fifth delta commit a new base file for each group that has logs."""

    def __init__(self) -> None:
        self.written = 0
        self._commits = 0
        self._with_logs: set[str] = set()

    def commit(self, groups: list[str]) -> None:
        self._commits += 1
        self._with_logs |= set(groups)
        if self._commits % HUDIS_DELTA_COMMITS == 0:
            self.written += sum(BASE_BYTES[group] for group in self._with_logs)
            self._with_logs = set()


class SizedTable:
    """The table, its writer, and the merges of the daemon."""

    def __init__(self, base: Path, now: float, properties: bytes | None = None) -> None:
        self.base = base
        self.written = 0
        """Bytes that operations wrote."""
        self.operations = Counter[tuple[OperationKind, str]]()
        self._timeline = base / ".hoodie/timeline"
        self._timeline.mkdir(parents=True)
        (base / ".hoodie/hoodie.properties").write_bytes(properties or table_properties())
        (base / "p").mkdir()
        (base / "p/.hoodie_partition_metadata").write_text("commitTime=20260101000000000\npartitionDepth=1\n")
        born = now - 1.0  # A commit at `now` has an instant of its own.
        instant = format_instant_time(int(born * 1000), UTC)
        for group, size in BASE_BYTES.items():
            write_base(base / "p" / f"{group}_0-7-0_{instant}.parquet", size)
        self._complete(instant, born, [f"{group}_0-7-0_{instant}.parquet" for group in BASE_BYTES])

    def commit(self, groups: list[str], now: float, chance: Random) -> None:
        instant = format_instant_time(int(now * 1000), UTC)
        names = [f".{group}_{instant}.log.1_0-7-0" for group in groups]
        for name in names:
            data = log_file(instant, {1}, size=chance.randint(16 * KIB, 256 * KIB))
            (self.base / "p" / name).write_bytes(data)
        self._complete(instant, now, names)

    def merge(self, base_path: str, spec: OperationSpec, task_attempt: int) -> OperationResult:
        """Stands in for `run_operation`."""
        name = spec.file_name(task_attempt)
        path = Path(spec.attempt_folder, name)
        if spec.kind is OperationKind.FULL:
            write_base(path, BASE_BYTES[spec.slice.file_id])
        else:
            logs = [parsed for log in spec.slice.log_files if (parsed := parse_log_file(os.path.basename(log)))]
            sources = [log.instant for log in logs]
            path.write_bytes(log_file(spec.slice.instant, {1}, sources=sources, size=spec.input_bytes))
        self.written += path.stat().st_size
        self.operations[spec.kind, spec.slice.file_id] += 1
        return OperationResult(
            kind=spec.kind,
            index=spec.index,
            partition_path=spec.slice.partition_path,
            file_id=spec.slice.file_id,
            file_name=name,
            size_bytes=path.stat().st_size,
            counts=no_counts(1),
            digest="",
            input_bytes=spec.input_bytes,
            seconds=1.0,
        )

    def oldest_in_logs_only(self) -> float | None:
        """When the oldest write was committed that no base file holds."""
        snapshot = scan(self.base)
        times = [
            snapshot.timeline.visible_at(log.instant) for slice_ in snapshot.latest_slices for log in slice_.log_files
        ]
        return min((parse_instant_time(time, UTC) / 1000 for time in times), default=None)

    def _complete(self, instant: str, now: float, names: list[str]) -> None:
        completed = format_instant_time(int(now * 1000) + 1, UTC)
        stats = {
            "p": tuple(
                WriteStat(
                    file_id=name.lstrip(".").partition("_")[0],
                    path=f"p/{name}",
                    partition_path="p",
                    num_writes=1,
                    file_size_in_bytes=(self.base / "p" / name).stat().st_size,
                )
                for name in names
            )
        }
        metadata = CommitMetadata(stats, compacted=False, extra_metadata={"schema": SCHEMA}, operation_type="UPSERT")
        for state, content in (
            ("deltacommit.requested", b""),
            ("deltacommit.inflight", b""),
            ("deltacommit", write_commit_metadata(metadata)),
        ):
            path = self._timeline / f"{instant}{'' if '.' in state else '_' + completed}.{state}"
            path.write_bytes(content)
            os.utime(path, (now, now))


def write_base(path: Path, size: int) -> None:
    """Head and footer, and a hole between them."""
    whole = base_file({1})
    with path.open("wb") as file:
        file.write(whole[:-FOOTER_BYTES])
        file.seek(size - FOOTER_BYTES)
        file.write(whole[-FOOTER_BYTES:])


FOOTER_BYTES = 9


def test_the_daemon_keeps_its_objective_and_writes_no_more_than_hudi(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At no moment of several days is a record in logs only for longer than the objective, by a scan and by the gauge
    behind the alert; and the services wrote less than full compactions after every fifth delta commit would have."""
    seed = os.environ.get("LAKEWARD_SEED") or secrets.token_hex(4)
    print(f"LAKEWARD_SEED={seed}")
    chance, hudi = Random(seed), HudisDefault()
    monkeypatch.setattr(job, "check_slice_at", lambda *given: CheckedSlice(0, 0, ()))
    (tmp_path / "tables/orders").mkdir(parents=True)
    daemon = ByDefault(tmp_path / "tables", tmp_path / "state")
    table = SizedTable(tmp_path / "tables/orders", daemon.clock.now())
    daemon.run_operation = table.merge
    now = began = next_commit = daemon.clock.now()
    while now < began + DAYS * DAY:
        if now >= next_commit:
            groups = [group for group, often in CHANCE.items() if now == began or chance.random() < often]
            table.commit(groups, now, chance)
            hudi.commit(groups)
            next_commit += COMMIT_EVERY
        daemon.run(STEP, step=STEP)
        now = daemon.clock.now()
        (shown,) = daemon.status().tables
        assert shown.served.settings.objective_kept == DAY
        assert not shown.is_breached(now)
        since = table.oldest_in_logs_only()
        assert since is None or now - since <= DAY
    print(f"by services {table.written / MIB:.0f} MiB, by Hudi's {hudi.written / MIB:.0f} MiB, {table.operations}")
    assert table.written <= hudi.written
    assert {"cold", "hot"} <= {group for kind, group in table.operations if kind is OperationKind.FULL}
    assert any(kind is OperationKind.LOG for kind, _ in table.operations)
