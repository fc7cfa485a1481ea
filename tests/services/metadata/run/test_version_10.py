"""The services of a metadata table of version 10: native logs over inline ones become base files, and are cleaned."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.format.file_name import HFILE
from lakeward.format.timeline.compaction_plan import read_compaction_plan
from lakeward.format.timeline.instant import State
from lakeward.storage.local import LocalStorage
from tests.crash.compacting import age_temporary_files
from tests.faults import FaultKind, FaultyStorage, Killed, faults_of
from tests.metadata_golden import METADATA, METADATA_TIMELINE
from tests.processes import ScriptedProcesses
from tests.services.metadata.run.compacting_metadata import (
    VERSION_10,
    clean_metadata,
    commit_natively,
    compact_metadata,
    copy_table,
)
from tests.services.metadata.run.test_compaction import compactions, metadata_leftovers, records, slices_of


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return copy_table(VERSION_10, tmp_path / "table")


def native_logs(base: Path) -> list[str]:
    return sorted(path.name for path in (base / METADATA).glob(f"*/*_1.*.{HFILE}"))


def test_mixed_slices_become_base_files(base: Path) -> None:
    """Record by record what readers merged, deletions among it; the plan names logs of both forms."""
    before, slices = records(base), slices_of(base)
    names = {log.name.text for slice_ in slices.values() for log in slice_.log_files}
    natives = set(native_logs(base))
    assert natives < names and any(name.endswith(".deletes.hfile") for name in natives)
    done = compact_metadata(base, LocalStorage())
    assert done is not None and records(base) == before
    for group_id, slice_ in slices_of(base).items():
        if any(log.name.text in natives for log in slices[group_id].log_files):
            assert slice_.log_files == () and (slice_.base_file is None or slice_.base_file.instant == done.instant)
    requested = base / METADATA_TIMELINE / f"{done.instant}.compaction.requested"
    plan = read_compaction_plan(requested.read_bytes(), file=requested.name, extension=HFILE, native=True)
    assert {name for operation in plan.operations for name in operation.log_files} == names


def test_native_logs_are_cleaned_away(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that readers need goes with them."""
    monkeypatch.setattr("lakeward.services.metadata.plan.dead_slices.RETAINED_COMMITS", 1)
    first = native_logs(base)
    compact_metadata(base, LocalStorage())
    commit_natively(base)
    before, second = records(base), [name for name in native_logs(base) if name not in first]
    compact_metadata(base, LocalStorage())
    done = clean_metadata(base, LocalStorage())
    assert done is not None and records(base) == before
    assert native_logs(base) == second


@pytest.mark.crash
def test_a_plan_of_native_logs_is_found_by_the_next_run(base: Path) -> None:
    """The process died once it was written; `make interop` has every other call."""
    expected, processes = records(base), ScriptedProcesses()
    trial = FaultyStorage()
    compact_metadata(copy_table(VERSION_10, base.with_name("trial")), trial)
    faults = faults_of(FaultKind.KILL, trial.calls)
    fault = next(each for each in faults if "compaction.inflight" in trial.calls[each.call])
    with pytest.raises(Killed):
        compact_metadata(base, FaultyStorage(fault), processes)
    assert compactions(base, State.REQUESTED) and records(base) == expected
    processes.kill_all()
    age_temporary_files(base)
    assert compact_metadata(base, LocalStorage(), processes) is not None
    assert records(base) == expected and metadata_leftovers(base) == []
