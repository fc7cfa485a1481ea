"""A table with a live writer that is handed to the daemon, with nothing set but `roots` and `writers`, stays bounded.

The table is that of `test_promises.py`: its files have sizes and heads, and the clock is moved by half hours.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from random import Random

import pytest

from lakeward.config.file import load_settings
from lakeward.config.settings import Settings
from lakeward.engine.task.operation_spec import OperationKind
from lakeward.engine.task.slice_check_spec import CheckedSlice
from lakeward.protocol.job_kind import JobKind
from lakeward.services.clean.plan.policy import CleanPolicy
from lakeward.services.verification import job
from tests.our_reader import scan
from tests.scenarios.test_promises import (
    BASE_BYTES,
    CHANCE,
    HUDIS_DELTA_COMMITS,
    MINUTE,
    STEP,
    ByDefault,
    SizedTable,
)
from tests.simulation.writer import table_properties

COMMITS = 48
EVERY = 60 * MINUTE


class LogAlone(ByDefault):
    """With log compactions alone, without end."""

    @staticmethod
    def load(root: Path, state_folder: Path, settings: object, *, named: Path | None = None) -> Settings:
        file = root.parent / "lakeward.toml"
        file.write_text(f'[discovery]\nroots = ["{root}"]\n[locks]\nwriters = "share"\n[defaults]\ntype = "log"\n')
        return load_settings(file, {}, {"service.state_folder": str(state_folder)})


def serviced(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    properties: bytes | None = None,
    made: type[ByDefault] = ByDefault,
) -> tuple[ByDefault, SizedTable, Random]:
    """A daemon on a table, and the chance by which it is written to."""
    seed = os.environ.get("LAKEWARD_SEED") or secrets.token_hex(4)
    print(f"LAKEWARD_SEED={seed}")
    monkeypatch.setattr(job, "check_slice_at", lambda *given: CheckedSlice(0, 0, ()))
    (tmp_path / "tables/orders").mkdir(parents=True)
    daemon = made(tmp_path / "tables", tmp_path / "state")
    table = SizedTable(tmp_path / "tables/orders", daemon.clock.now(), properties)
    daemon.run_operation = table.merge
    return daemon, table, Random(seed)


@pytest.mark.slow
def test_slices_and_bytes_stay_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file group never has more slices than the last ten commits, and the five by which the daemon comes
    after writers that clean, can need: one each and the one before. The bytes follow, and the newest slices stay."""
    daemon, table, chance = serviced(tmp_path, monkeypatch)
    bytes_seen: list[int] = []
    slices_seen: list[int] = []
    for number in range(COMMITS):
        groups = [group for group, often in CHANCE.items() if number == 0 or chance.random() < often]
        table.commit(groups, daemon.clock.now(), chance)
        daemon.run(EVERY, step=STEP)
        slices = [len(group.slices) for group in scan(table.base).file_groups]
        assert len(slices) == len(BASE_BYTES), "every group is there"
        slices_seen.append(max(slices))
        bytes_seen.append(sum(path.stat().st_size for path in (table.base / "p").iterdir()))
    print(f"slices of one group {slices_seen}, MiB {[size >> 20 for size in bytes_seen]}")
    (shown,) = daemon.status().tables
    assert JobKind.CLEAN in shown.last_success_at
    # A compaction comes every fifth commit at most, and its commit is one of those that are counted.
    assert max(slices_seen) <= (CleanPolicy().retain + 2 * 5) / 5 + 2
    assert max(bytes_seen) <= 3 * sum(BASE_BYTES.values()), "a compaction's slices, and those before it until they go"
    assert bytes_seen[-1] < sum(BASE_BYTES.values()) + table.written, "what was written is not all there"


@pytest.mark.slow
@pytest.mark.parametrize(
    "properties",
    [
        table_properties().replace(b"hoodie.table.version=9", b"hoodie.table.version=8"),
        table_properties() + b"hoodie.table.partial.update.mode=IGNORE_DEFAULTS\n",
    ],
    ids=["version 8", "partial updates"],
)
def test_logs_stay_few_where_no_log_compaction_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, properties: bytes
) -> None:
    """A write every ten minutes would leave 144 logs until the objective of a day."""
    daemon, table, chance = serviced(tmp_path, monkeypatch, properties)
    logs_seen: list[int] = []
    for _ in range(COMMITS):
        table.commit(["hot"], daemon.clock.now(), chance)
        daemon.run(10 * MINUTE, step=10 * MINUTE)
        logs_seen.append(max(len(slice_.log_files) for slice_ in scan(table.base).latest_slices))
    print(f"logs {logs_seen}, {table.operations}")
    assert not any(kind is OperationKind.LOG for kind, _ in table.operations)
    assert max(logs_seen) <= 20 + HUDIS_DELTA_COMMITS, "the daemon plans after every fifth delta commit"
    assert table.operations[OperationKind.FULL, "hot"] <= COMMITS // 20


@pytest.mark.wide
def test_logs_stay_few_with_log_compactions_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What they merged stays in the slice, past the archiving of their plans, until FULL makes a new one: it comes with
    more than eighty such logs, since opening them costs a query more than a base file of 300 MiB."""
    daemon, table, chance = serviced(tmp_path, monkeypatch, made=LogAlone)
    logs_seen: list[int] = []
    live_seen: list[int] = []
    for _ in range(4 * COMMITS):
        table.commit(["hot"], daemon.clock.now(), chance)
        daemon.run(10 * MINUTE, step=10 * MINUTE)
        snapshot = scan(table.base)
        logs_seen.append(max(len(slice_.log_files) for slice_ in snapshot.latest_slices))
        live_seen.append(max(len(snapshot.live_logs(slice_).live) for slice_ in snapshot.latest_slices))
    print(f"logs {logs_seen}, live {live_seen}, {table.operations}")
    assert table.operations[OperationKind.LOG, "hot"] >= COMMITS // 2
    assert max(live_seen) <= 20
    assert 80 < max(logs_seen) <= 80 + 20 + 2 * HUDIS_DELTA_COMMITS
    assert 1 <= table.operations[OperationKind.FULL, "hot"] <= 3
