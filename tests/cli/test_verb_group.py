"""Options declared once are those of every verb that takes them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from lakeward.base.errors import LakewardError
from lakeward.cli.result import Result, Show
from lakeward.cli.verb_group import _RETIRED, as_command
from lakeward.cli.verbs import PANELS
from lakeward.cli.verbs import app as lakeward

UPGRADE = Path(__file__).parents[2] / "docs/operate/upgrade.md"


@dataclass(frozen=True)
class Weather:
    rain: Annotated[int, typer.Option(help="How much.")] = 0
    wind_from: Annotated[str | None, typer.Option("--wind", help="Where it comes from.")] = None


def report(
    *,
    place: Annotated[str, typer.Argument()],
    weather: Weather,
) -> Result:
    """Say it."""
    return Result(
        document={"place": place},
        lines=[f"{place} {weather}"],
        is_nothing=weather.rain == 0,
        error=LakewardError("It pours.") if weather.rain > 99 else None,
    )


def run(*arguments: str) -> str:
    return outcome(*arguments).output


def outcome(*arguments: str) -> Any:
    app = typer.Typer()
    app.command()(as_command(report, has_exit_code=True))
    return CliRunner().invoke(app, arguments)


def test_a_group_is_its_fields() -> None:
    """A verb is called with the value that its options make; what is not said is the field's default."""
    assert run("here", "--rain", "3", "--debug") == "here Weather(rain=3, wind_from=None)\n"
    assert run("here", "--wind", "west") == "here Weather(rain=0, wind_from='west')\n"


def test_a_result_is_printed_in_one_place() -> None:
    """Keeps 1 of cli/result and 4 of cli/verb_group: with --json the document alone, then the error, else the code."""
    assert run("here", "--json") == '{\n  "place": "here"\n}\n'
    assert [outcome("here", *more).exit_code for more in ([], ["--exit-code"], ["--exit-code", "--rain", "1"])] == [
        0,
        3,
        0,
    ]
    poured = outcome("here", "--rain", "100")
    assert str(poured.exception) == "It pours." and poured.output.startswith("here ")


@dataclass(frozen=True)
class Given:
    name: str

    def resolved(self) -> str:
        return self.name.upper()


def greet(*, whom: Annotated[str, Given], show: Show) -> Result:
    show(Result(document=None, lines=[f"Looking for {whom}."]))
    return Result(document=whom, lines=[f"Hello {whom}."])


def test_a_group_that_opens_is_given_opened() -> None:
    """A verb is handed what a group makes, and may show a part of its result before the rest."""
    app = typer.Typer()
    app.command()(as_command(greet))
    assert CliRunner().invoke(app, ["ada"]).output == "Looking for ADA.\nHello ADA.\n"
    assert CliRunner().invoke(app, ["ada", "--json"]).output == '"ADA"\n'


def test_no_text_commands_a_terminal() -> None:
    """Keeps 2 of cli/result: a name may hold the bytes that clear a screen; they are shown as an escape."""
    assert run("here\x1b[2J") == "here\\x1b[2J Weather(rain=0, wind_from=None)\n"


def test_help_has_the_verb_and_its_options() -> None:
    """A group leaves no trace in the help, which has the verb's words and each field's."""
    shown = run("--help")
    for words in ("Say it.", "--rain", "How much.", "--wind", "Where it comes from.", "--debug"):
        assert words in shown, words


@pytest.mark.parametrize(
    "verb", [("compact",), ("unschedule",), ("rollback",), ("metadata", "disable"), ("metadata", "drop")]
)
def test_each_verb_that_writes_takes_the_statements(verb: tuple[str, ...]) -> None:
    """What is said of other writers and their lock is said alike to every verb that writes."""
    shown = CliRunner().invoke(lakeward, [*verb, "--help"], env={"COLUMNS": "200"}).output
    for option in ("--writers", "--lock", "--lock-zookeeper-path", "--lock-wait", "--lock-expire"):
        assert option in shown, option


def test_what_was_renamed_is_on_the_page() -> None:
    """Operators find each verb and option that was renamed, with what takes its place, as they find keys
    (tests/config/test_file.py)."""
    rows = [line.split("|") for line in UPGRADE.read_text().splitlines() if line.startswith("| `")]
    groups = [group for panel in PANELS.values() for group in panel]
    renamed = {group.name: group.now for group in groups if group.now}
    renamed |= {f"{group.name} {verb.name}": verb.now for group in groups for verb in group.verbs if verb.now}
    assert renamed, "there are some"
    for name, now in renamed.items():
        assert any(f"`lakeward {name}" in row[1] and f"`lakeward {now}" in row[2] for row in rows), name
    for option in _RETIRED:
        assert any(option in row[1] for row in rows), option
