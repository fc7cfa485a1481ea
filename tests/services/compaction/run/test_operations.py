"""How far the tasks of a plan are, as an observer hears it."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path

import pytest

from lakeward.engine.dispatch import in_process
from lakeward.engine.dispatch.in_process import InProcessDispatcher
from lakeward.engine.task.operation_spec import OperationResult, OperationSpec
from lakeward.engine.task.work_counters import WorkMeter
from lakeward.protocol.progress import Merged
from tests.golden_tables import copy_golden
from tests.services.bench import Bench, Watcher


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(copy_golden("v9", tmp_path / "table"))


class Waiting(Watcher):
    """Sets an event at the first state in which a slice is half read."""

    def __init__(self) -> None:
        super().__init__()
        self.half = threading.Event()

    def merged(self, state: Merged) -> None:
        super().merged(state)
        if 0 < state.input_bytes < state.input_bytes_total:
            self.half.set()


def test_a_slice_is_seen_half_read_before_it_is_done(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No number goes down, all is read at the end, and the file of the counters goes."""
    monkeypatch.setattr(in_process, "REPORT_SECONDS", 0.001)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    bench.watcher = watcher = Waiting()
    real = bench.run

    def run(spec: OperationSpec, attempt: int) -> OperationResult:
        assert spec.counters is not None
        half = (Path(spec.slice.base_path) / str(spec.slice.base_file)).read_bytes()[: spec.input_bytes // 2]
        meter = WorkMeter(spec.counters, read_bytes_max=spec.input_bytes)
        (tmp_path / "half").write_bytes(half)
        with meter.reading(bench.storage).open_input(str(tmp_path / "half")) as file:
            file.read()
        assert watcher.half.wait(60)
        return real(spec, attempt)

    bench.run = run
    (plan,) = bench.compactor().compact().plans

    states = watcher.states
    assert states[0].input_bytes == 0 and all(state.is_within_slices for state in states)
    for name in ("operations", "input_bytes", "output_bytes", "verified_bytes"):
        numbers = [getattr(state, name) for state in states]
        assert numbers == sorted(numbers), name
    last = states[-1]
    assert (last.operations, last.input_bytes) == (1, last.input_bytes_total)
    assert last.output_bytes == last.verified_bytes == plan.output_bytes
    assert not list(tmp_path.glob("lakeward-progress-*"))


class Elsewhere(InProcessDispatcher):
    is_on_this_machine = False


def test_of_tasks_elsewhere_what_is_finished_is_seen(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The storage shows it. They get no place for counters, and the figures say what they count."""
    monkeypatch.setattr("tests.services.bench.InProcessDispatcher", Elsewhere)
    real = bench.run

    def run(spec: OperationSpec, attempt: int) -> OperationResult:
        assert spec.counters is None
        return real(spec, attempt)

    bench.run = run
    (plan,) = bench.compactor().compact().plans

    first, last = bench.watcher.states[0], bench.watcher.states[-1]
    assert (first.input_bytes, first.is_within_slices) == (0, False)
    assert (last.operations, last.input_bytes, last.output_bytes) == (1, last.input_bytes_total, plan.output_bytes)
    assert "finished slices only" in first.sentence
