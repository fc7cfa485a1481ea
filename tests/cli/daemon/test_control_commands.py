"""What an operator says to the daemons is in the store, and only what makes sense gets there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from lakeward.base.clock import SystemClock
from lakeward.cli.main import run
from lakeward.daemon.status import JobProgress, JobWait
from lakeward.protocol.progress import Merged
from lakeward.state.migration import migrate
from lakeward.state.records import ControlKind, CostRecord, EventRecord, JobRecord, TargetKind
from lakeward.state.store import Store, open_store
from tests.golden_tables import copy_golden


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """The store of a configuration, which knows one table."""
    url = f"sqlite:///{tmp_path}/lakeward.db"
    (tmp_path / "lakeward.toml").write_text(f'[state]\nurl = "{url}"\n')
    monkeypatch.setenv("LAKEWARD_CONFIG", str(tmp_path / "lakeward.toml"))
    migrate(url)
    store = open_store(url, clock=SystemClock())
    store.observations.watch("orders", str(tmp_path / "lake" / "orders"), 1.0)
    yield store
    store.close()


def now() -> float:
    return SystemClock().now()


def test_a_table_is_paused_and_resumed(store: Store, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The table is given by name or by base path, and paused for a while or for good; who said it and why is kept."""
    assert run(["pause", "orders", "--reason", "maintenance", "--for", "2h"]) == 0
    assert "table orders until" in capfd.readouterr().out
    (control,) = store.controls.in_force(now())
    assert (control.kind, control.target_kind, control.target) == (ControlKind.PAUSE, TargetKind.TABLE, "orders")
    assert control.reason == "maintenance" and "@" in control.by
    assert control.until is not None and 7100 < control.until - now() < 7201

    assert run(["resume", str(tmp_path / "lake" / "orders") + "/", "--json"]) == 0
    shown = json.loads(capfd.readouterr().out)
    assert (shown["target"], shown["until_time"]) == ("orders", None)
    assert datetime.fromisoformat(shown["time"]).timestamp() == pytest.approx(shown["at"], abs=0.001)
    assert [control.kind for control in store.controls.in_force(now())] == [ControlKind.RESUME]


def test_a_table_is_called_by_its_last_folder(store: Store, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A table without a configured name is, while no other base path ends so; verbs about files take it, too. With
    two of them the error names both."""
    trips = copy_golden("v9", tmp_path / "lake" / "trips")
    store.observations.watch(str(trips), str(trips), 1.0)
    assert run(["pause", "trips", "--reason", "maintenance"]) == 0
    assert [control.target for control in store.controls.in_force(now())] == [str(trips)]
    capfd.readouterr()
    assert run(["inspect", "trips", "--config", str(tmp_path / "lakeward.toml"), "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["table"]["base_path"] == str(trips)

    other = str(tmp_path / "elsewhere" / "trips")
    store.observations.watch(other, other, 1.0)
    for verb in (
        ["pause", "trips", "--reason", "x"],
        ["explain", "trips", "--config", str(tmp_path / "lakeward.toml")],
    ):
        assert run(verb) == 2
        shown = capfd.readouterr().err
        assert str(trips) in shown and other in shown


def test_a_file_group_or_a_group_of_tables(store: Store) -> None:
    """A file group is named by partition and id; the partition may have slashes, or not be there."""
    assert run(["pause", "orders", "--file-group", "2026/01/fg-0", "--reason", "x"]) == 0
    assert run(["pause", "orders", "--file-group", "fg-0", "--reason", "x"]) == 0
    assert run(["pause", "--group", "nightly", "--reason", "x"]) == 0
    assert [(each.target_kind, each.target, each.file_group) for each in store.controls.in_force(now())] == [
        (TargetKind.FILE_GROUP, "orders", ("2026/01", "fg-0")),
        (TargetKind.FILE_GROUP, "orders", ("", "fg-0")),
        (TargetKind.GROUP, "nightly", None),
    ]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["pause", "order", "--reason", "x"], "Did you mean orders?"),
        (["pause", "--reason", "x"], "Say which table"),
        (["pause", "orders", "--group", "g", "--reason", "x"], "not both"),
        (["pause", "--group", "g", "--file-group", "fg", "--reason", "x"], "goes with a table"),
        (["pause", "orders", "--for", "a while", "--reason", "x"], "2h"),
        (["pause", "orders"], "--reason"),
        (["cancel", "nothing", "--reason", "x"], "No table or job nothing is known"),
        (["cancel", "order", "--reason", "x"], "Did you mean orders?"),
        (["jobs", "ordres"], "Did you mean orders?"),
        (["events", "ordres"], "Did you mean orders?"),
    ],
)
def test_what_makes_no_sense_is_refused(
    store: Store, arguments: list[str], says: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """The command exits with 2 and says what to do; nothing reaches the store."""
    assert run(arguments) == 2
    assert says in capfd.readouterr().err
    assert store.controls.in_force(now()) == ()


def test_a_job_or_a_tables_jobs_are_cancelled(store: Store, capfd: pytest.CaptureFixture[str]) -> None:
    """A job that runs, by its id, or all of a table; one that has ended is refused."""
    store.jobs.begin(JobRecord("j1", "orders", "compaction", 1.0))
    assert run(["cancel", "j1", "--reason", "too slow"]) == 0
    assert run(["cancel", "orders", "--reason", "too slow"]) == 0
    assert [(each.target_kind, each.target) for each in store.controls.in_force(now())] == [
        (TargetKind.JOB, "j1"),
        (TargetKind.TABLE, "orders"),
    ]
    store.jobs.end("j1", "committed", None, at=2.0)
    assert run(["cancel", "j1", "--reason", "x"]) == 2
    assert "1970-01-01 00:00:02 UTC: committed" in capfd.readouterr().err


def test_a_job_that_runs_and_a_group_are_suggested(
    store: Store, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A job that has ended is not; a group that the configuration does not name is refused, and reaches no store."""
    store.jobs.begin(JobRecord("0123456789abcdef", "orders", "compaction", 1.0))
    store.jobs.begin(JobRecord("fedcba9876543210", "orders", "clean", 1.0))
    store.jobs.end("fedcba9876543210", "committed", None, at=2.0)
    assert run(["cancel", "0123456789abcde", "--reason", "x"]) == 2
    assert "Did you mean 0123456789abcdef?" in capfd.readouterr().err
    assert run(["cancel", "fedcba987654321", "--reason", "x"]) == 2
    assert "Name the configuration with --config" in capfd.readouterr().err
    with (tmp_path / "lakeward.toml").open("a") as file:
        file.write("[service]\ngroups = { nightly = 1 }\n")
    assert run(["pause", "--group", "nigthly", "--reason", "x"]) == 2
    assert (
        "There is no group nigthly.\nDid you mean nightly?\nThe groups are default, nightly." in capfd.readouterr().err
    )
    assert store.controls.in_force(now()) == ()
    assert run(["pause", "--group", "nightly", "--reason", "x"]) == run(
        ["pause", "--group", "default", "--reason", "x"]
    )


def test_a_short_name_is_suggested(store: Store, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Both kinds of verbs suggest what may be typed."""
    trips = str(tmp_path / "lake" / "trips")
    store.observations.watch(trips, trips, 1.0)
    for verb in (
        ["pause", "trisp", "--reason", "x"],
        ["inspect", "trisp", "--config", str(tmp_path / "lakeward.toml")],
    ):
        assert run(verb) == 2
        assert "Did you mean trips?" in capfd.readouterr().err


def test_each_job_has_a_line_on_80_columns(
    store: Store, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job's id is whole, since `cancel` takes it; a table's name is cut; what it did, or why it
    failed, stands below."""
    for name, value in {"COLUMNS": "80", "TTY_COMPATIBLE": "1", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)
    store.jobs.begin(JobRecord("0123456789abcdef", "lake/" + "orders" * 9, "metadata-compaction", 1.0))
    store.jobs.end("0123456789abcdef", "failed", "the disk is away", at=2.0)
    store.jobs.begin(JobRecord("j2", "orders", "compaction", 3.0))
    done = {"full_operations": 2, "log_files": 7, "log_bytes": 1024}
    store.jobs.end("j2", "committed", None, at=4.0, instant="20260101000000000", figures=done)

    assert run(["jobs"]) == 0
    _, _, line, *below = capfd.readouterr().out.splitlines()

    assert line.split()[0] == "0123456789abcdef" and "…" in line and line.split()[-1] == "failed"
    assert len(line) <= 80
    assert below == [
        "j2: 20260101000000000. 2 FULL · 7 logs of 1.0 KiB merged",
        "0123456789abcdef: the disk is away",
    ]


def test_a_running_job_says_how_far_it_is_and_what_it_waits_for(
    store: Store, capfd: pytest.CaptureFixture[str]
) -> None:
    """It is as the daemon that runs it said last, with the figures of the page; a job that ended says what it did."""
    merged = Merged(1, 4, 50 * 2**20, 100 * 2**20, 20 * 2**20)
    progress = JobProgress("compaction 20270115: merging", merged, wait=JobWait("write 20270114, at most 60 s", 3.0))
    store.jobs.begin(JobRecord("j1", "orders", "compaction", 1.0))
    store.jobs.under_way("j1", {**progress.as_json(), "at": 9.0})

    assert run(["jobs"]) == 0
    out = " ".join(capfd.readouterr().out.split())
    assert " waits " in out and merged.sentence in out
    assert "waits since 1970-01-01 00:00:03 UTC: write 20270114, at most 60 s. compaction 20270115: merging" in out
    assert run(["jobs", "--json"]) == 0
    (job,) = json.loads(capfd.readouterr().out)
    found = job["progress"]
    assert (found["input_bytes"], found["phase"], found["time"]) == (
        50 * 2**20,
        "merging",
        "1970-01-01T00:00:09.000Z",
    )
    assert (found["waiting_since"], found["waiting_since_time"]) == (3.0, "1970-01-01T00:00:03.000Z")
    assert job["figures"] == {}

    store.jobs.end("j1", "committed", None, at=20.0, figures={"read_bytes": 5})
    store.jobs.under_way("j1", {"step": "late"})
    assert run(["jobs", "--json"]) == 0
    (job,) = json.loads(capfd.readouterr().out)
    assert "progress" not in job and job["figures"] == {"read_bytes": 5}


def test_jobs_and_events_are_shown(store: Store, capfd: pytest.CaptureFixture[str]) -> None:
    """Jobs and events of all tables or of one are shown, as a table or as JSON; text from a table is no markup."""
    assert run(["jobs"]) == 0
    assert "No job" in capfd.readouterr().out
    store.jobs.begin(JobRecord("j1", "orders", "compaction", 1.0))
    store.jobs.begin(JobRecord("j2", "[red]other", "compaction", 2.0))
    store.events.record(EventRecord(1.0, "parked", "failed five times", table="orders", file_group=("p", "fg")))
    assert run(["jobs"]) == 0
    out = capfd.readouterr().out
    assert "j1" in out and "[red]other" in out and "runs" in out
    assert run(["jobs", "orders", "--json"]) == 0
    (job,) = json.loads(capfd.readouterr().out)
    assert (job["id"], job["began_at"], job["began_time"]) == ("j1", 1.0, "1970-01-01T00:00:01.000Z")
    assert (job["ended_at"], job["ended_time"]) == (None, None)
    assert run(["events", "orders"]) == 0
    assert "failed five times" in capfd.readouterr().out
    assert run(["events", "--json", "--limit", "1"]) == 0
    (event,) = json.loads(capfd.readouterr().out)
    assert (event["file_group"], event["at"], event["time"]) == (["p", "fg"], 1.0, "1970-01-01T00:00:01.000Z")


def test_one_job_and_the_costs_of_months_are_shown(store: Store, capfd: pytest.CaptureFixture[str]) -> None:
    """A job by its id with its card, which a job that runs, or that an older release ran, has none of; sums by month.
    An id that the store does not know is refused."""
    assert run(["costs"]) == 0
    assert "No job has ended" in capfd.readouterr().out
    assert run(["job", "j1"]) == 2
    assert "There is no job j1." in capfd.readouterr().err
    store.jobs.begin(JobRecord("j1", "orders", "compaction", 1.0))
    assert run(["job", "j1"]) == 0
    assert capfd.readouterr().out == "compaction of orders: runs\nBegan 1970-01-01 00:00:01 UTC\n"
    store.jobs.end("j1", "committed", None, at=61.0, instant="t9")
    store.jobs.record_cost(
        CostRecord(
            *("j1", "orders", "compaction", "1970-01", 61.0, "committed", 60.0, 5.0, 2048, 1024),
            predicted_seconds=2.0,
            cpu_seconds=3.0,
            task_seconds=4.0,
            saved_seconds_a_day=86400.0,
            detail={"reasons": {"log-ratio": 2}, "phases": {"merge": 50.0}, "written": {"t9": 1}},
        )
    )
    again = CostRecord("j2", "orders", "compaction", "1970-01", 62.0, "committed", 1.0, detail={"rewritten": {"t9": 1}})
    assert run(["job", "j1"]) == 0
    out = capfd.readouterr().out
    assert "Why: 2 log-ratio\nTook: 1 min, of which it waited 5 s\nPhases: merge 50 s\n" in out
    assert "Actual: 3 CPU seconds, 1.5 times what was predicted\nPays back: at 1970-01-01 00:01:04 UTC, which is" in out
    store.jobs.record_cost(again)
    assert run(["job", "j1", "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert (document["id"], document["card"]["pay_back"], document["card"]["rewritten_at"]) == ("j1", "rewritten", 62.0)

    assert run(["costs", "orders"]) == 0
    assert "1970-01" in capfd.readouterr().out
    assert run(["costs", "--json"]) == 0
    (month,) = json.loads(capfd.readouterr().out)
    assert (month["table"], month["jobs"], month["seconds"], month["predicted_seconds"]) == ("orders", 2, 61.0, 2.0)
