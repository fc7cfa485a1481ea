"""Writes of Lakeward whose process died, or seemed to: what the next process makes of them."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from lakeward.base.errors import AttemptLost, Conflict
from lakeward.format.timeline.commit_metadata import CommitMetadata, WriteStat, write_commit_metadata
from lakeward.format.timeline.instant import State, parse_instant
from lakeward.protocol.attempts.heartbeat import find_intent
from tests.faults import Fault, FaultKind, Killed
from tests.memory_objects import MemoryObjects, Objects
from tests.object_lake import BASE
from tests.object_tables import bring, fetch
from tests.our_reader import read_rows, scan
from tests.processes import ScriptedProcesses
from tests.write.test_whole_write import CLOCK, write_while
from tests.write.writing import BUCKETS, new_table, values, write

TIMELINE = f"{BASE}/.hoodie/timeline"


def test_a_writer_that_wakes_up_publishes_nothing(tmp_path: Path) -> None:
    """It was judged dead and rolled back by the next write, which is complete. Keeps 7 of
    services/rollback/run/roll_back."""
    base = new_table(tmp_path / "t")
    write(base, [("k1", 1, "p", "a")], **BUCKETS)
    processes = ScriptedProcesses()

    def next_one() -> None:
        processes.kill_all()
        options: dict[str, object] = {"writers_stopped": False}
        write(base, [("k1", 2, "p", "hudis")], processes=processes, options=options, clock=CLOCK, **BUCKETS)

    with pytest.raises(AttemptLost):
        write_while(base, [("k1", 3, "p", "own")], next_one, processes=processes, **BUCKETS)
    assert values(read_rows(base)) == {"k1": "hudis"}
    assert scan(base).timeline.pending == () and not scan(base).uncommitted_files
    assert [each.action for each in scan(base).timeline.completed] == ["deltacommit", "rollback", "deltacommit"]


@pytest.fixture
def given(tmp_path: Path) -> tuple[Objects, str, ScriptedProcesses]:
    """A store with a write that died after it had stated its intent, before anything of that; its instant."""
    base = new_table(tmp_path / "t")
    write(base, [("k1", 1, "p", "a")], **BUCKETS)
    objects = Objects()
    bring(base, MemoryObjects(objects), BASE)
    for number in range(200):
        stopped, processes = Objects(dict(objects.data), objects.versions), ScriptedProcesses()
        store = MemoryObjects(stopped, Fault(FaultKind.KILL, number))
        with suppress(Killed):
            write(BASE, [("k1", 2, "p", "b")], storage=store, processes=processes, **BUCKETS)
        processes.kill_all()
        seen = MemoryObjects(stopped)
        for status in seen.list(f"{BASE}/.hoodie/.heartbeat"):
            if find_intent(seen, BASE, status.name) is not None:
                return stopped, status.name, processes
    raise AssertionError("no write states an intent")


def fetched(objects: Objects) -> Path:
    return fetch(MemoryObjects(objects), BASE, Path(tempfile.mkdtemp()))


def test_an_intent_is_completed(given: tuple[Objects, str, ScriptedProcesses]) -> None:
    """The next write does so before it begins. Keeps 5 of services/rollback/run/roll_back."""
    objects, instant, processes = given
    write(BASE, [("k2", 1, "p", "c")], storage=MemoryObjects(objects), processes=processes, **BUCKETS)
    base = fetched(objects)
    assert values(read_rows(base)) == {"k1": "b", "k2": "c"}
    assert instant in {each.time for each in scan(base).timeline.completed_writes}


def test_an_intent_that_fits_no_more_is_left(given: tuple[Objects, str, ScriptedProcesses]) -> None:
    """Another engine wrote to the same file group since. Keeps 8 of services/rollback/run/roll_back."""
    objects, instant, processes = given
    store = MemoryObjects(objects)
    intent = find_intent(store, BASE, instant)
    assert intent is not None
    own = parse_instant(intent.completed, 2)
    assert own is not None and own.completion_time is not None
    snapshot = scan(fetched(objects))
    (group, *_) = snapshot.file_groups
    stat = WriteStat(file_id=group.file_id, path=f"p/{group.slices[0].files[0].file_name}", partition_path="p")
    hudis = CommitMetadata({"p": (stat,)}, operation_type="UPSERT", extra_metadata={"schema": snapshot.schema or ""})
    later = str(int(own.completion_time) + 1)
    name = replace(own, time=later, state=State.COMPLETED)
    store.create(f"{TIMELINE}/{name.time}_{int(later) + 1}.deltacommit", write_commit_metadata(hudis))
    with pytest.raises(Conflict, match="fits the table no more"):
        write(BASE, [("k2", 1, "p", "c")], storage=store, processes=processes, **BUCKETS)
    assert not [each.name for each in store.list(TIMELINE) if each.name == intent.completed]
