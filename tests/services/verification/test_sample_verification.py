"""A few slices read as a query reads them: right ones pass, and each way to be wrong is found and named."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeward.base.errors import Cancelled, Refused
from lakeward.engine.dispatch.in_process import InProcessDispatcher
from lakeward.engine.task import slice_check
from lakeward.engine.task.entry import check_slice_at
from lakeward.engine.task.slice_check import check_slice
from lakeward.engine.task.slice_check_spec import CheckedSlice, SliceCheck
from lakeward.format.avro.schema import table_schema
from lakeward.format.parquet.base_file import BaseFileWriter, open_base_file
from lakeward.read.file_slice import open_slice
from lakeward.read.query.sample import BASE_KEYS_MAX, LOG_KEYS_MAX
from lakeward.read.slice_input import SliceInput
from lakeward.services.verification.sample_verification import SampleReport, choose_slices, verify_sample
from lakeward.storage.local import LocalStorage
from tests.clocks import SkippingClock
from tests.crash.capturing import capture_changes, change_logs
from tests.crash.compacting import LOG, everything
from tests.golden_tables import copy_golden
from tests.metadata_golden import set_property
from tests.read.log_files import data_block, delete_block, row
from tests.read.slice_queries import lay_out
from tests.services.bench import GROUP, Bench
from tests.synthetic_table import file_group, minute, snapshot_of


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return copy_golden("v9", tmp_path / "table")


def verify(base: Path, check: Callable[[SliceCheck, int], CheckedSlice] | None = None, **options: Any) -> SampleReport:
    return verify_sample(
        LocalStorage(),
        str(base),
        **{"number": 4, "seed": 1} | options,
        dispatcher=InProcessDispatcher(),
        run_check=check or partial(check_slice, LocalStorage()),
        clock=SkippingClock(),
        timezone="UTC",
    )


def problem_of(report: SampleReport) -> str:
    (problem,) = report.problems
    assert problem.group == GROUP
    return problem.what


@pytest.mark.parametrize("state", ["logs", "log compacted", "compacted"])
def test_a_right_table_passes(base: Path, state: str) -> None:
    """Tables pass that Hudi wrote, with a log compaction of Lakeward, and compacted by us; sizes and rows are held
    against commits."""
    bench = Bench(base)
    if state == "log compacted":
        bench.compactor(LOG).compact()
    if state == "compacted":
        bench.compactor().compact()
    before = everything(base)
    seen: list[SliceCheck] = []

    def check(spec: SliceCheck, attempt: int) -> CheckedSlice:
        seen.append(pickle.loads(pickle.dumps(spec)))
        return check_slice_at(str(base), spec, attempt)

    report = verify(base, check)
    assert (report.groups, report.rows, report.problems, report.not_merged) == ((GROUP,), 4, (), ())
    assert report.read.bytes_stored > report.read.bytes_read >= report.read.bytes_stored / 2 > 0
    assert report.keys >= 4
    assert all(file.size_bytes for file in seen[0].files)
    assert [file.rows is not None for file in seen[0].files] == [True] + [False] * (len(seen[0].files) - 1)
    assert everything(base) == before


def test_a_log_of_changes_of_another_size_is_found(base: Path) -> None:
    """No row is read from it; what its commit says of it holds all the same."""
    capture_changes(base)
    Bench(base).compactor().compact()
    (name,) = change_logs(base)
    assert verify(base).problems == ()
    with (base / "p" / name).open("ab") as file:
        file.write(b"x")
    assert f"p/{name} has" in problem_of(verify(base))


def test_a_file_of_another_size_is_found(base: Path) -> None:
    """It was cut off by a byte after the snapshot."""

    def check(spec: SliceCheck, attempt: int) -> CheckedSlice:
        log = max((base / "p").glob(".*.log.*"))
        log.write_bytes(log.read_bytes()[:-1])
        return check_slice(LocalStorage(), spec, attempt)

    assert "bytes, its commit says" in problem_of(verify(base, check))


def test_a_missing_file_is_found(base: Path) -> None:
    """Gone after the snapshot, and its slice is still the latest."""

    def check(spec: SliceCheck, attempt: int) -> CheckedSlice:
        (base / spec.files[-1].path).unlink()
        return check_slice(LocalStorage(), spec, attempt)

    assert "is missing" in problem_of(verify(base, check))


def test_a_file_that_went_with_its_slice_is_no_problem(base: Path) -> None:
    """Keeps 2 of services/verification/sample_verification: compacted and cleaned while we read."""

    def check(spec: SliceCheck, attempt: int) -> CheckedSlice:
        Bench(base).compactor().compact()
        (base / spec.files[-1].path).unlink()
        return check_slice(LocalStorage(), spec, attempt)

    assert verify(base, check).problems == ()


def check_of(base: Path) -> SliceCheck:
    found: list[SliceCheck] = []

    def keep(spec: SliceCheck, attempt: int) -> CheckedSlice:
        found.append(spec)
        return CheckedSlice(0, 0, ())

    verify(base, keep)
    return found[0]


def test_a_base_file_with_other_rows_than_its_commit_says_is_found(base: Path) -> None:
    """The footer's count against the write stat."""
    check = check_of(base)
    wrong = (replace(check.files[0], rows=7), *check.files[1:])
    (problem,) = check_slice(LocalStorage(), replace(check, files=wrong), 0).problems
    assert "has 6 rows, its commit says 7" in problem


def test_a_key_in_several_rows_of_the_base_file_is_no_problem(base: Path) -> None:
    """Writers that look for no key leave it so; a key that comes out more often is one."""
    check = check_of(base)
    path = base / str(check.slice.base_file)
    with path.open("rb") as file:
        schema = table_schema(check.slice.schema)
        batches = list(open_base_file(file, schema, name=path.name))
    with path.open("wb") as sink:
        writer = BaseFileWriter(sink, schema, file_name=path.name)
        for batch in (*batches, batches[0].slice(0, 1)):
            writer.write(batch)
        writer.close()
    found = check_slice(LocalStorage(), SliceCheck(replace(check.slice, log_files=()), ()), 0)
    assert found.problems == () and found.not_merged is None


class TamperedMerge:
    """A merge whose first batch is something else, from the read with this number on."""

    def __init__(self, change: Callable[[pa.RecordBatch], list[pa.RecordBatch]], *, first: int) -> None:
        self._open = open_slice
        self._change = change
        self._first = first
        self._opened = 0

    @contextmanager
    def __call__(self, storage: LocalStorage, reading: SliceInput, **options: Any) -> Iterator[Any]:
        self._opened += 1
        with self._open(storage, reading, **options) as merged:
            really = merged.batches

            def batches() -> Iterator[pa.RecordBatch]:
                for number, batch in enumerate(really()):
                    yield from self._change(batch) if number == 0 and self._opened >= self._first else [batch]

            merged.batches = batches  # type: ignore[method-assign]
            yield merged


@pytest.mark.parametrize("first", [1, 2])
def test_a_merge_that_loses_a_row_is_found(base: Path, monkeypatch: pytest.MonkeyPatch, first: int) -> None:
    """The slow twin misses it; where it is lost only among rows that are asked for by their keys, these are others."""
    check = check_of(base)
    monkeypatch.setattr(slice_check, "open_slice", TamperedMerge(lambda batch: [batch.slice(1)], first=first))
    said = " ".join(check_slice(LocalStorage(), check, 0).problems)
    assert ("is missing" in said) == (first == 1)
    assert ("asked for by their keys" in said) == (first == 2)


def test_a_merge_that_gives_a_key_twice_is_found(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its hash shows it first, then the key itself, which is reported."""
    check = check_of(base)
    twice = TamperedMerge(lambda batch: [batch, batch.slice(0, 1)], first=1)
    monkeypatch.setattr(slice_check, "open_slice", twice)
    said = check_slice(LocalStorage(), check, 0).problems
    assert any(problem.startswith("record keys come out more than once, 1 of them, such as 'k") for problem in said), (
        said
    )


@pytest.mark.parametrize("is_sorted", [True, False])
def test_a_sample_is_taken_of_a_slice_of_many_batches(tmp_path: Path, is_sorted: bool) -> None:
    """Its rows are collected while it is still being chosen: none is missed, and no other one stays."""
    keys = [f"k{number:04}" for number in range(900)]
    base = [row(key, 10, "base") for key in (keys if is_sorted else reversed(keys))]
    logs = [
        data_block("200", [row(key, 5 + number % 9, "log") for number, key in enumerate(keys[::7])]),
        delete_block("201", [(key, None) for key in keys[::5]]),
        data_block("202", [row(f"new{number}", 1, "log") for number in range(100)]),
    ]
    found = check_slice(LocalStorage(), SliceCheck(lay_out(tmp_path, base, logs, group_rows=30), ()), 0)
    assert found.problems == ()
    assert found.keys == LOG_KEYS_MAX + BASE_KEYS_MAX
    assert found.read.bytes_read < 0.9 * found.read.bytes_stored


def test_the_same_seed_chooses_the_same_slices() -> None:
    """Keeps 1 of services/verification/sample_verification: another seed others; those of the given instants come
    first; a group with a pending compaction never."""
    groups = [file_group("p", f"g{n}", base=(minute(n + 1), 9), logs=[(minute(n + 30), 1)]) for n in range(20)]
    snapshot = snapshot_of(groups, [])

    def ids(**options: Any) -> list[str]:
        return [s.file_id for s in choose_slices(snapshot, **{"number": 5, "seed": 1, "lately": ()} | options)]

    assert ids() == ids()
    assert len(set(ids())) == 5
    assert len({tuple(ids(seed=seed)) for seed in range(10)}) > 5
    assert set(ids(lately=[minute(3), minute(37)])[:2]) == {"g2", "g7"}
    assert len(ids(number=99)) == 20
    snapshot = replace(snapshot, pending_compactions={("p", "g2"): minute(59)})
    assert "g2" not in ids(number=99)


def test_it_can_be_stopped(base: Path) -> None:
    """The guard is asked with every report."""

    def stop() -> None:
        raise Cancelled("Enough.")

    with pytest.raises(Cancelled):
        verify(base, guard=stop)


def test_a_table_whose_rows_cannot_be_merged_is_refused(base: Path) -> None:
    """Nothing is read of it; a table that only cannot be written is verified."""
    capture_changes(base)
    assert verify(base).groups == (GROUP,)
    set_property(base, "hoodie.compaction.payload.class", "com.example.Own")
    with pytest.raises(Refused, match="payload-class"):
        verify(base)


def test_a_report_is_plain_data(base: Path) -> None:
    """It goes into a store and onto a page."""
    assert json.loads(json.dumps(asdict(verify(base))))["rows"] == 4
