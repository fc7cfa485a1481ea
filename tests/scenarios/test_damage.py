"""Nothing is merged of a file group whose files are not what their commits say, and the table's other groups go on."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lakeward.base.errors import DamagedFiles
from lakeward.engine.task.operation import run_operation
from lakeward.engine.task.operation_spec import OperationResult, OperationSpec
from lakeward.format.timeline.commit_metadata import read_commit_metadata, write_commit_metadata
from lakeward.format.timeline.compaction_plan import read_compaction_plan, write_compaction_plan
from lakeward.services.compaction.plan.decision import Choice, Reason
from lakeward.services.compaction.run.publication import ACCEPTED_DAMAGE
from lakeward.storage.local import LocalStorage
from lakeward.table.damaged_file import DamageKind
from lakeward.table.timeline.service_instants import PLANNED_BY
from tests.crash.compacting import FULL, LOG, check_finished, everything
from tests.faults import Fault, FaultKind, FaultyStorage
from tests.golden_tables import copy_golden, expected_rows
from tests.our_reader import read_rows
from tests.services.bench import GROUP, PENDING, Bench

TWIN = "0bf517f7-02cc-4e03-aec7-b7450919b7fd-0"


def twins(base: Path) -> Path:
    """The same file group under two ids; its commits name the files of both."""
    for file in list((base / "p").iterdir()):
        if GROUP[1] in file.name:
            shutil.copy2(file, file.with_name(file.name.replace(GROUP[1], TWIN)))
    for commit in (base / ".hoodie" / "timeline").glob("*_*.*commit"):
        metadata = read_commit_metadata(commit.read_bytes(), file=commit.name, layout=2)
        (stat,) = metadata.partition_to_write_stats["p"]
        twin = replace(stat, file_id=TWIN, path=(stat.path or "").replace(GROUP[1], TWIN))
        times = (commit.stat().st_atime, commit.stat().st_mtime)
        commit.write_bytes(write_commit_metadata(replace(metadata, partition_to_write_stats={"p": (stat, twin)})))
        os.utime(commit, times)
    return base


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(twins(copy_golden("v9", tmp_path / "table")))


def newest_log(base: Path, file_id: str = GROUP[1]) -> Path:
    return max((base / "p").glob(f".{file_id}_*.log.*"))


def base_file(base: Path, file_id: str = GROUP[1]) -> Path:
    (found,) = (base / "p").glob(f"{file_id}_*.parquet")
    return found


def cut(file: Path, length: int) -> None:
    file.write_bytes(file.read_bytes()[:length])


def garble(file: Path) -> None:
    """A byte of the first block's length, so that its file is as long as before."""
    data = bytearray(file.read_bytes())
    data[8] ^= 0x40
    file.write_bytes(bytes(data))


def garble_header(file: Path) -> None:
    """The number of headers of the first block, which is framed well all the same."""
    data = bytearray(file.read_bytes())
    data[6 + 8 + 4 + 4] = 0x40
    file.write_bytes(bytes(data))


def of_unknown_type(file: Path) -> None:
    """The type of the first block, which is framed well all the same."""
    data = bytearray(file.read_bytes())
    data[6 + 8 + 4 + 3] = 99
    file.write_bytes(bytes(data))


def files_of(base: Path) -> dict[str, bytes]:
    """Files of the damaged group."""
    return {path.name: path.read_bytes() for path in (base / "p").iterdir() if GROUP[1] in path.name}


DAMAGE: dict[str, Callable[[Path], object]] = {
    "log cut in half": lambda base: cut(newest_log(base), 441),
    "log cut by one byte": lambda base: cut(newest_log(base), 881),
    "log emptied": lambda base: cut(newest_log(base), 0),
    "log gone": lambda base: newest_log(base).unlink(),
    "torn block": lambda base: garble(newest_log(base)),
    "broken header": lambda base: garble_header(newest_log(base)),
    "block of an unknown type": lambda base: of_unknown_type(newest_log(base)),
    "base file gone": lambda base: base_file(base).unlink(),
    "base file cut": lambda base: cut(base_file(base), 2000),
    "no footer": lambda base: base_file(base).write_bytes(bytes(base_file(base).stat().st_size)),
}


@pytest.mark.parametrize("planner", [FULL, LOG], ids=["full", "log"])
@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_group_is_excluded_and_the_others_go_on(bench: Bench, name: str, planner: object) -> None:
    """No file is written for it and none taken away; when its file comes back it is merged like the other one. Keeps 1
    of services/compaction/run/log_checks."""
    whole = files_of(bench.base)
    DAMAGE[name](bench.base)
    before = files_of(bench.base)
    report = bench.compactor(planner).compact()  # type: ignore[arg-type]
    (file,) = report.damage
    assert GROUP[1] in file.path and file.remedy
    assert [operation.file_id for plan in report.plans for operation in plan.operations] == [TWIN]
    assert files_of(bench.base) == before
    for file_name, content in whole.items():
        (bench.base / "p" / file_name).write_bytes(content)
    report = bench.compactor(planner).compact()  # type: ignore[arg-type]
    assert report.damage == ()
    assert [operation.file_id for plan in report.plans for operation in plan.operations] == [GROUP[1]]
    assert read_rows(bench.base) == [row for row in expected_rows("v9") for _ in range(2)]


def test_what_is_wrong_is_said_once(bench: Bench) -> None:
    """The problem has file, offset, instant and remedy; the decision about the group says why it is excluded."""
    garble(newest_log(bench.base))
    report = bench.compactor().compact()
    (file,) = report.damage
    assert "from byte 0 on" in file.what and "20261121043709156" in file.what
    (left,) = (decision for decision in report.outcome.decisions if decision.file_id == GROUP[1])
    assert (left.choice, left.reason, left.instead_of) == (Choice.NONE, Reason.DAMAGED, Choice.FULL)


def test_a_pending_plan_with_a_damaged_log_is_not_carried_out(tmp_path: Path) -> None:
    """Another engine's plan waits, with everything as it was; the log is of another size than when it was planned."""
    bench = Bench(copy_golden("v9", tmp_path / "table", pending=True))
    for damage in (lambda log: cut(log, 500), garble):
        shutil.copytree(bench.base, tmp_path / "sound", copy_function=shutil.copy2)
        damage(newest_log(bench.base))
        before = everything(bench.base)
        report = bench.compactor().compact()
        assert [left.instant for left in report.left_pending] == [PENDING]
        assert len(report.damage) == 1 and report.plans == ()
        assert everything(bench.base) == before
        shutil.rmtree(bench.base)
        shutil.move(tmp_path / "sound", bench.base)
    assert [plan.instant for plan in bench.compactor().compact().plans] == [PENDING]
    check_finished(bench.base)


def test_a_pending_plan_of_lakeward_is_unscheduled(tmp_path: Path) -> None:
    """Its other file groups can then be planned without the damaged one."""
    bench = Bench(copy_golden("v9", tmp_path / "table", pending=True))
    path = bench.base / f".hoodie/timeline/{PENDING}.compaction.requested"
    plan = read_compaction_plan(path.read_bytes(), file=str(path))
    path.write_bytes(write_compaction_plan(replace(plan, extra_metadata={PLANNED_BY: "lakeward"})))
    cut(newest_log(bench.base), 500)
    report = bench.compactor().compact()
    assert [ended.instant for ended in report.unscheduled] == [PENDING]
    assert report.damage and not report.plans and not path.exists()


def test_a_log_that_is_cut_while_it_is_merged_is_not_published(bench: Bench) -> None:
    """The scan before the commit sees its size; the plan stays, and nothing else."""

    def cut_meanwhile(spec: OperationSpec, task_attempt: int) -> OperationResult:
        result = run_operation(bench.storage, spec, task_attempt)
        if spec.slice.file_id == GROUP[1]:
            cut(newest_log(bench.base), 500)
        return result

    bench.run = cut_meanwhile  # type: ignore[assignment]
    with pytest.raises(DamagedFiles, match="500 bytes long and not 882") as caught:
        bench.compactor().compact()
    assert caught.value.file_group == GROUP
    assert not [path for path in everything(bench.base) if path.endswith(".commit") and "compaction" in path]


def test_accepted_logs_are_merged_without_what_is_gone(bench: Bench) -> None:
    """Hudi's readers do so; the commit and the log of the run say which files the rows were in."""
    cut(newest_log(bench.base), 600)
    newest_log(bench.base, TWIN).unlink()
    report = bench.compactor(accept_damaged_logs=True).compact()
    assert report.damage == ()
    (plan,) = report.plans
    assert sorted(operation.file_id for operation in plan.operations) == [TWIN, GROUP[1]]
    (commit,) = (bench.base / ".hoodie/timeline").glob(f"{plan.instant}_*.commit")
    said = read_commit_metadata(commit.read_bytes(), file=commit.name, layout=2).extra_metadata[ACCEPTED_DAMAGE]
    for part in ("600 bytes long and not 882", "the 600 bytes from byte 0 on", "is not listed"):
        assert part in said
    assert any("600 bytes long" in step for step in bench.watcher.steps)


def test_a_broken_header_and_a_base_file_are_never_accepted(bench: Bench) -> None:
    """Hudi's readers stop there, too."""
    garble_header(newest_log(bench.base))
    cut(base_file(bench.base, TWIN), 100)
    report = bench.compactor(accept_damaged_logs=True).compact()
    assert {file.kind for file in report.damage} == {DamageKind.CORRUPT_BLOCK, DamageKind.OTHER_SIZE}
    assert report.plans == ()


def test_a_read_error_is_no_damage(bench: Bench) -> None:
    """The storage fails while block heads are read, or what readers take marks of deletion from: the run fails with its
    error, and nothing is excluded."""
    counting = FaultyStorage()
    bench.storage = counting
    bench.compactor().preview()
    opened = [number for number, call in enumerate(counting.calls) if call.startswith("open") and ".log." in call]
    assert len(opened) == 6 + 1
    for number in opened:
        bench.storage = FaultyStorage(Fault(FaultKind.BEFORE, number))
        with pytest.raises(OSError):
            bench.compactor().preview()
    bench.storage = LocalStorage()
    assert bench.compactor().compact().damage == ()
