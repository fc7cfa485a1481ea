"""What other policies would have cost, by command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from lakeward.cli.main import run
from lakeward.services.compaction.simulation.trace import parse_trace, write_trace
from tests.our_reader import scan
from tests.services.compaction.simulation.sized_history import HISTORY, MIB, base, compacts, log, traced, writes
from tests.services.compaction.simulation.test_table_trace import files, live
from tests.write.writing import new_table, write


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return live(tmp_path_factory.mktemp("lived") / "orders")


def simulated(capfd: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    capfd.readouterr()
    assert run(["simulate", *words, "--json"]) == 0
    found: dict[str, Any] = json.loads(capfd.readouterr().out)
    return found


def rows(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["policy"] + (", as set" if each["as_set"] else ""): each for each in found["policies"]}


def test_a_table_and_a_record_of_it(lived: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What happened has the bytes of the files; a record of the table gives the same, and has no name of it. Nothing of
    the table is written."""
    before = {path: path.stat().st_mtime_ns for path in lived.rglob("*")}
    found = simulated(capfd, str(lived), "--reads", "200/day")
    happened = rows(found)["what happened"]
    sizes = dict(files(lived))
    assert happened["written_by_writers"] + happened["written_by_compactions"] == sum(sizes.values()) - sum(
        size for name, size in sizes.items() if name.endswith(".parquet") and _first(sizes, name)
    )
    assert list(rows(found)) == ["what happened", "hudi", "rfc-103", "cost"]
    assert len({each["written_by_writers"] for each in found["policies"]}) == 1
    assert found["reads_per_day"] == 200

    file = tmp_path / "orders.trace"
    assert run(["record", str(lived), "--to", str(file)]) == 0
    assert f"in {file}" in capfd.readouterr().out
    again = simulated(capfd, "--trace", str(file), "--reads", "200/day")
    for name, each in rows(again).items():
        same = ("written_by_writers", "written_by_compactions", "full", "log", "jobs", "opened_logs_max")
        assert [each[key] for key in same] == [rows(found)[name][key] for key in same], name
    recorded = file.read_text()
    for group in scan(lived).file_groups:
        assert group.file_id not in recorded
    assert str(lived) not in recorded
    assert before == {path: path.stat().st_mtime_ns for path in lived.rglob("*")}


def _first(sizes: dict[str, int], name: str) -> bool:
    """Whether a base is the first of its group: its commit begins the trace, and is not counted."""
    of_group = [each for each in sizes if each.startswith(name.split("_")[0]) and each.endswith(".parquet")]
    return name == min(of_group, key=lambda each: each.split("_")[-1])


@pytest.fixture
def history(tmp_path: Path) -> Path:
    file = tmp_path / "t.trace"
    file.write_bytes(write_trace(HISTORY))
    return file


def test_policies_side_by_side(history: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Added up by hand: 15 MiB are written; FULL comes once, and in Hudi's default at each fifth delta commit."""
    found = simulated(capfd, "--trace", str(history), "--core-hour-price", "0.05")
    assert found["model"] == {
        "written_bytes": 100 * MIB,
        "modelled_bytes": 100 * MIB,
        "factor": 1.0,
        "is_close": True,
    }
    happened, hudi = rows(found)["what happened"], rows(found)["hudi"]
    assert (happened["full"], happened["write_amplification"]) == (1, pytest.approx(1 + 100 / 15, abs=1e-3))
    assert (hudi["full"], hudi["write_amplification"]) == (3, 21.0)
    seconds = hudi["job_core_seconds"] + hudi["reader_core_seconds"]
    assert hudi["price"] == pytest.approx(seconds / 3600 * 0.05, abs=1e-4)

    assert run(["simulate", "--trace", str(history), "--core-hour-price", "0.05"]) == 0
    text = capfd.readouterr().out
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "18 h from 2026-01-01 00:00:00 UTC on, 16 commits on 2 file groups." in text
    assert any(line.startswith("hudi 15.0 MiB 300.0 MiB 21.0 3 3 0 ") for line in lines)
    assert "By the model, the compactions that were made write 100.0 MiB; really they wrote 100.0 MiB: 0% off." in text
    assert "jobs and readers cost" in text and "over time, at most" in text and "█" in text


def test_a_page_of_curves(history: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Keeps 1 and 2 of cli/simulated_page: a curve of each policy in each chart, nothing that a browser would fetch or
    run, and the name of the table as it is. A file that is there stays."""
    odd = tmp_path / "a<b>&.trace"
    odd.write_bytes(history.read_bytes())
    file = tmp_path / "page.html"
    found = simulated(capfd, "--trace", str(odd), "--html", str(file))
    page = file.read_text()
    assert page.count("<polyline ") % len(found["policies"]) == 0 and page.count("<polyline ") >= 5 * 4
    assert "a&lt;b&gt;&amp;.trace" in page and "a<b>" not in page
    for forbidden in ("<script", "href", "src=", "url(", "http", "@import"):
        assert forbidden not in page
    parsed = ElementTree.fromstring(page.removeprefix("<!doctype html>").replace('<meta charset="utf-8">', ""))
    tops = [
        point for line in parsed.iter("polyline") for point in line.attrib["points"].split() if point.endswith(",0.0")
    ]
    assert tops, "the most of a chart is at its top"
    assert run(["simulate", "--trace", str(odd), "--html", str(file)]) == 2
    assert "Name a new file." in capfd.readouterr().err and file.read_text() == page


def test_settings_get_lines_of_their_own(history: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """--set beside what is without it, and --policy leaves others out."""
    words = ["--trace", str(history), "--policy", "rfc-103", "--set", "planner.small_base_size=1GiB"]
    found = rows(simulated(capfd, *words))
    assert list(found) == ["what happened", "rfc-103", "rfc-103, as set"]
    assert found["rfc-103"]["full"] == 0 and found["rfc-103, as set"]["full"] == 3


def test_a_model_that_is_off_shows_no_ratio_and_no_money(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """But the factor; what really happened is a fact all the same. The same where no compaction was made."""
    before, after = ([writes(hour, log(MIB)) for hour in hours] for hours in (range(1, 8), range(9, 17)))
    for compaction, said in (
        ([compacts(8, base(150 * MIB))], "write 0.67 times what they really wrote (150.0 MiB)"),
        ([], "No compaction was made in that time"),
    ):
        file = tmp_path / f"{len(compaction)}.trace"
        file.write_bytes(write_trace(traced(*before, *compaction, *after, hours=18)))
        found = simulated(capfd, "--trace", str(file), "--core-hour-price", "1")
        assert not found["model"]["is_close"]
        for name, each in rows(found).items():
            is_fact = name == "what happened"
            assert (each["write_amplification"] is not None) == (each["price"] is not None) == is_fact
        assert run(["simulate", "--trace", str(file)]) == 0
        text = capfd.readouterr().out
        assert said in text and "left out" in text


def test_what_cannot_be_simulated(
    lived: Path, history: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each with what helps."""
    fresh = new_table(tmp_path / "fresh")
    write(fresh, [("k1", 1, "p", "a")])
    no_trace = tmp_path / "no.trace"
    no_trace.write_text("{}")
    for words, code, said in (
        ([], 2, "Give the one that is to be simulated."),
        ([str(lived), "--trace", str(history)], 2, "Give the one that is to be simulated."),
        ([str(lived), "--set", "planner.policy=cost"], 2, "Give --policy cost."),
        ([str(lived), "--set", "planner.no_such=1"], 2, "There is no setting planner.no_such."),
        ([str(lived), "--reads", "often"], 2, "such as 200/day"),
        ([str(lived), "--last", "soon"], 2, "--last cannot be 'soon'."),
        ([str(lived), "--core-hour-price", "-1"], 2, "cannot be negative"),
        ([str(fresh)], 2, "is too short: 0 delta commits with logs"),
        (["--trace", str(tmp_path / "none")], 2, "cannot be read"),
        (["--trace", str(no_trace)], 1, "is no trace of a table"),
    ):
        assert run(["simulate", *words]) == code, words
        assert said in " ".join(capfd.readouterr().err.split()), words


def test_a_record_is_not_written_over(lived: Path, history: Path, capfd: pytest.CaptureFixture[str]) -> None:
    content = history.read_bytes()
    assert run(["record", str(lived), "--to", str(history)]) == 2
    assert "Name a new file." in capfd.readouterr().err
    assert history.read_bytes() == content and parse_trace(content, file="t").replayed
