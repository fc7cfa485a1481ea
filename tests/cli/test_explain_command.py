"""Why a file is still there, and what an instant is, by command."""

from __future__ import annotations

import json
import os
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from lakeward.cli.main import run
from lakeward.state.migration import migrate
from lakeward.state.records import DecisionRecord
from lakeward.state.store import open_store
from tests.clocks import SettableClock
from tests.crash.compacting import everything
from tests.golden_tables import copy_golden
from tests.services.bench import PENDING
from tests.services.clean.run.cleaning import TIMELINE
from tests.services.clustering.run.packing import pack
from tests.services.clustering.run.test_clusterer import FEW, made
from tests.services.rollback.run.failed_tables import fail_last_write

STOPPED = ("--writers", "stopped", "--timezone", "UTC")
NEWEST, OLDER, OLDEST = "20261121043709156", "20261121043708181", "20261121043703223"


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return copy_golden("v9", tmp_path / "table")


def explained(capfd: pytest.CaptureFixture[str], table: Path, *words: str) -> tuple[int, dict[str, object], str]:
    """Exit code, the document, and the sentences."""
    capfd.readouterr()
    code = run(["explain", str(table), *words, "--timezone", "UTC", "--json"])
    out = capfd.readouterr().out
    assert run(["explain", str(table), *words, "--timezone", "UTC"]) == code
    return code, json.loads(out[out.index("{") :]), capfd.readouterr().out


def test_a_file_through_its_life(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Live; pinned by a savepoint once a compaction superseded it; kept for readers after that; at last set aside."""
    base = next((table / "p").glob("*.parquet"))
    code, document, text = explained(capfd, table, "--file", f"p/{base.name}")
    assert (code, document["verdict"]) == (0, "live")
    assert "Readers of the table as it is now read it." in text

    assert run(["savepoint", "create", str(table), OLDER, *STOPPED]) == 0
    assert run(["compact", str(table), "--engine", "local", "--type", "full", *STOPPED]) == 0
    code, document, text = explained(capfd, table, "--file", str(base))
    assert (document["verdict"], document["savepoints"]) == ("pinned", [OLDER])
    assert f"Savepoint {OLDER} pins it since" in text

    assert run(["savepoint", "delete", str(table), OLDER, *STOPPED]) == 0
    _, document, _ = explained(capfd, table, "--file", base.name)
    assert (document["verdict"], document["kept_by"][0]["reason"]) == ("retained", "too-few-commits")  # type: ignore[index]

    clean = ("--policy", "versions", "--retain", "1", "--reader-window", "0s", "--keep-deleted", "1d")
    assert run(["clean", str(table), *clean, *STOPPED]) == 0
    _, document, text = explained(capfd, table, "--file", base.name)
    assert document["verdict"] == "quarantined" and document["quarantine_run"] == document["cleaned_by"]
    assert "`lakeward quarantine restore TABLE " in text
    assert run(["quarantine", "purge", str(table), "--older-than", "0s", *STOPPED]) == 0
    before = everything(table)
    _, document, text = explained(capfd, table, "--file", base.name)
    assert document["verdict"] == "cleaned"
    assert f"clean {document['cleaned_by']} deleted it" in text
    _, document, text = explained(capfd, table, "--instant", str(document["cleaned_by"]))
    assert "It deleted 4 files." in text
    compaction = max(path.name for path in (table / ".hoodie/timeline").glob("*.commit"))[:17]
    _, document, text = explained(capfd, table, "--instant", compaction)
    assert document["merged_by"] == "hashes 1" and "Its file groups were merged by: hashes 1." in text
    _, document, text = explained(capfd, table, "--instant", OLDEST)
    assert document["files"][0]["verdict"] == "cleaned"  # type: ignore[index]
    assert "It wrote 1 file: 1 cleaned." in text
    assert everything(table) == before


def test_a_path_from_the_current_folder(
    table: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is taken beside one that is below the table, wherever the shell is, also by way of a link."""
    base = next((table / "p").glob("*.parquet"))
    (table.parent / "link").symlink_to(table)
    for folder, given in (
        (table.parent, f"table/p/{base.name}"),
        (table.parent, f"./table/p/{base.name}"),
        (table.parent, f"link/p/{base.name}"),
        (table.parent, f"p/{base.name}"),
        (table, f"p/{base.name}"),
        (table / "p", base.name),
        (table / "p", f"./{base.name}"),
        (table / ".hoodie", f"../p/{base.name}"),
    ):
        monkeypatch.chdir(folder)
        code, document, _ = explained(capfd, table, "--file", given)
        assert (code, document["path"], document["verdict"]) == (0, f"p/{base.name}", "live"), given


def test_what_is_there_is_never_called_deleted(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A file in a folder that is no partition: the storage has it and the listing has not. A name without a folder that
    no partition has was looked for nowhere else."""
    base = next((table / "p").glob("*.parquet"))
    (table / "copies").mkdir()
    (table / "copies" / base.name).write_bytes(b"12345")
    code, document, text = explained(capfd, table, "--file", f"copies/{base.name}")
    assert (code, document["verdict"], document["bytes"]) == (3, "unknown", 5)
    assert text.splitlines()[0] == f"copies/{base.name}, 5 B: unknown."
    assert text.splitlines()[1].startswith("It is a base file of file group")
    assert text.splitlines()[2] == (
        "It is there, and the listing of the table's partitions has it not: its readers do not see it, and no service "
        "touches it. `lakeward verify` says whether the table is right."
    )
    name = f"none-0_0-0-0_{OLDER}.parquet"
    (table / "copies" / name).touch()
    code, document, text = explained(capfd, table, "--file", name)
    assert (code, document["verdict"]) == (3, "unknown")
    assert text.splitlines()[2] == (
        "No partition of the table has a file of this name, and no clean, commit or rollback on the active timeline "
        "names it. Elsewhere it was not looked for: pass its path to have it looked for there."
    )


def test_a_name_alone_of_a_file_that_is_gone(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Its commit says which partition it was in."""
    base = next((table / "p").glob("*.parquet"))
    base.unlink()
    code, document, text = explained(capfd, table, "--file", base.name)
    assert (code, document["path"], document["verdict"]) == (0, f"p/{base.name}", "missing")
    assert "It is not there, its commit names it" in text


def test_an_instant(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What it is, what happened to its files, and what holds it on the timeline."""
    assert run(["savepoint", "create", str(table), OLDER, *STOPPED]) == 0
    code, document, text = explained(capfd, table, "--instant", OLDER)
    assert (code, document["operation"], document["is_archived"]) == (0, "UPSERT", False)
    assert [each["action"] for each in document["on_timeline"]] == ["deltacommit", "savepoint"]  # type: ignore[attr-defined]
    assert "It wrote 1 file: 1 live of 1.1 KiB." in text
    assert "4 completed commits are no more than 30" in text
    assert "A savepoint pins 4 files as of it" in text


def test_what_nothing_knows(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Exit code 3, with an answer; a path that cannot be a file of the table is an error."""
    code, document, text = explained(capfd, table, "--file", f"p/none-0_0-0-0_{OLDER}.parquet")
    assert (code, document["verdict"]) == (3, "unknown")
    assert "there was never such a file" in text
    code, document, _ = explained(capfd, table, "--instant", "20200101000000000")
    assert (code, document["on_timeline"]) == (3, [])
    for words in (
        ("--file", "/elsewhere/x.parquet"),
        ("--instant", "yesterday"),
        ("--instant", OLDER, "--file", "x"),
        ("--instant", OLDER, "--type", "full"),
    ):
        assert run(["explain", str(table), *words]) == 2


def test_the_table_itself(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Its bytes by state, and what a clean would take."""
    _, document, text = explained(capfd, table)
    assert document["storage"]["live"]["files"] == 4  # type: ignore[index]
    assert "Storage: 5.7 KiB live." in text
    assert "A clean would take nothing" in text
    assert "leaves 20 to 30 commits, because that is Hudi's default" in text


def test_it_goes_by_the_configuration(table: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The answer about the table, a file or an instant says by which settings it is, and from which source."""
    config = tmp_path / "lakeward.toml"
    config.write_text(
        '[defaults.clean]\npolicy = "commits"\nretain = 1\nreader_window = "0s"\n'
        '[defaults.archive.hudi]\n"hoodie.keep.min.commits" = 2\n"hoodie.keep.max.commits" = 3\n'
    )
    base = next((table / "p").glob("*.parquet"))
    for words in ((), ("--file", f"p/{base.name}"), ("--instant", OLDEST)):
        _, document, text = explained(capfd, table, *words, "--config", str(config))
        judged = document["judged_by"]
        assert judged["clean"] == {"policy": "commits", "retain": 1, "because": "the configuration says so"}  # type: ignore[index]
        assert judged["archive"]["commits_max"] == 3 and "2 to 3 commits, because the configuration" in text  # type: ignore[index]
    assert "4 completed commits are no more than" not in text


def test_a_table_that_is_not_compacted(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What prevents compaction is said, and what holds the storage all the same."""
    with (table / ".hoodie/hoodie.properties").open("a") as file:
        file.write("hoodie.table.cdc.enabled=true\nhoodie.table.cdc.supplemental.logging.mode=ALL\n")
    code, document, text = explained(capfd, table)
    assert (code, list(document["refused"]), document["decisions"]) == (0, ["compaction"], [])  # type: ignore[call-overload]
    assert "Refused, compaction: hoodie.table.cdc.enabled" in text and "Storage: 5.7 KiB live." in text


def test_a_service_that_was_left_unfinished(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What a rollback would do to it, why, and from when on."""
    table = copy_golden("v9", tmp_path / "table", pending=True)
    folder = table / ".hoodie/timeline"
    (folder / f"{PENDING}.compaction.inflight").touch()
    _, document, text = explained(capfd, table, "--instant", PENDING)
    assert (document["rollback"]["step"], document["rollback"]["reason"]) == ("leave", "maybe-at-work")  # type: ignore[index]
    assert "`lakeward rollback` leaves it: another engine began it" in text and ", which is at 20" in text
    for file in folder.glob(f"{PENDING}*"):
        os.utime(file, (0, 0))
    _, document, text = explained(capfd, table, "--instant", PENDING)
    assert document["rollback"]["step"] == "release"  # type: ignore[index]
    assert "`lakeward rollback` releases it, and the next compaction carries its plan out: it has no heartbeat" in text


def test_an_empty_rollback_says_by_its_plan_what_went(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Keeps of table/timeline/rollbacks: some releases of Hudi left the completed file empty."""
    instant = fail_last_write(table)
    assert run(["rollback", str(table), *STOPPED]) == 0
    (completed,) = (table / TIMELINE).glob("*.rollback")
    completed.write_bytes(b"")
    code, document, _ = explained(capfd, table, "--instant", instant)
    assert (code, document["rolled_back_by"]) == (0, completed.name.partition("_")[0])


def test_a_file_that_a_clustering_replaced_or_made(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old file names the clustering and the file group that its rows went to, the new one where they came from."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    table = made(tmp_path / "t")
    old = {each.name for each in (table / "p").glob("*.parquet")}
    instant = pack(table, packing=FEW).instant
    (new,) = {each.name for each in (table / "p").glob("*.parquet")} - old
    groups = sorted(name.partition("_")[0] for name in old)
    _, document, text = explained(capfd, table, "--file", f"p/{min(old)}")
    assert (document["replaced_by"], document["went_to"]) == (instant, [new.partition("_")[0]])
    assert f"clustering {instant} gave its rows to file group {new.partition('_')[0]}." in text
    _, document, text = explained(capfd, table, "--file", f"p/{new}")
    assert (document["made_from"], document["went_to"]) == (groups, [])
    assert f"a clustering that gave it rows of file groups {', '.join(groups)}" in text


def test_what_was_decided_at_a_time(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The store has each group's sentence then, and since when it was chosen; 3 where nothing is known of that time."""
    code, document, text = explained(capfd, table, "--at", "2 hours ago")
    assert (code, document["decisions"], document["known_since"]) == (3, [], None)
    assert "no daemon's store is there" in text and "none is known" in text

    url = f"sqlite:///{tmp_path}/lakeward.db"
    config = tmp_path / "lakeward.toml"
    config.write_text(f'[state]\nurl = "{url}"\n')
    migrate(url)
    noon = 1_795_953_600.0  # 2026-11-29 12:00 UTC
    numbers = {"log_bytes": 900, "base_bytes": 1000, "log_files": 3, "log_ratio": 0.5}
    with closing(open_store(url, clock=SettableClock(noon))) as store:
        record, name = store.observations.record_decisions, str(table)
        full = DecisionRecord("p", "fg1", "FULL", "log-ratio", numbers)
        later = DecisionRecord("p", "fg2", "FULL", "a-reason-of-a-later-release", numbers)
        record(name, noon, None, [full, later])
        record(name, noon + 60, None, [replace(full, choice="NONE", reason="no-logs", numbers={"base_bytes": 1000})])
    given = ("--config", str(config))
    code, document, text = explained(capfd, table, "--at", "2026-11-29 12:00:30", *given)
    decisions = document["decisions"]
    assert isinstance(decisions, list)
    (found,) = decisions
    assert (code, found["file_group"], found["choice"]) == (0, "fg1", "FULL")
    assert (found["chosen_at"], document["known_since"]) == (noon, noon)
    assert "As of 2026-11-29 12:00:30" in text and f"by the store {url}" in text
    assert "more than 50% of the base" in found["explanation"]
    assert found["explanation"] in text and "Since 2026-11-29 12:00:00" in text
    assert "fg2" not in text
    code, document, _ = explained(capfd, table, "--at", "2026-11-29T13:00", *given, "--partition", "p")
    assert (code, document["decisions"][0]["choice"]) == (0, "NONE")  # type: ignore[index]
    assert explained(capfd, table, "--at", "2026-11-29T13:00", *given, "--partition", "q")[0] == 3
    code, document, text = explained(capfd, table, "--at", "2026-11-29 11:59", *given)
    assert code == 3 and "known since 2026-11-29 12:00:00" in text

    capfd.readouterr()
    assert run(["explain", str(table), "--at", "now", "--type", "full", "--timezone", "UTC"]) == 2
    assert "--partition and --file-group go with --at" in capfd.readouterr().err
