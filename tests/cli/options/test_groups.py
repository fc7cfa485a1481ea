"""Options declared once are those of every verb that takes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from lakeward.cli.options.groups import with_option_groups
from lakeward.cli.verbs import app as lakeward


@dataclass(frozen=True)
class Weather:
    rain: Annotated[int, typer.Option(help="How much.")] = 0
    wind_from: Annotated[str | None, typer.Option("--wind", help="Where it comes from.")] = None


@with_option_groups
def tell(
    *,
    place: Annotated[str, typer.Argument()],
    weather: Weather,
    debug: Annotated[bool, typer.Option("--debug")] = False,
) -> None:
    """Tell it."""
    typer.echo(f"{place} {weather} {debug}")


def run(*arguments: str) -> str:
    app = typer.Typer()
    app.command()(tell)
    return CliRunner().invoke(app, arguments, catch_exceptions=False).output


def test_a_group_is_its_fields() -> None:
    """A verb is called with the value that its options make; what is not said is the field's default."""
    assert run("here", "--rain", "3", "--debug") == "here Weather(rain=3, wind_from=None) True\n"
    assert run("here", "--wind", "west") == "here Weather(rain=0, wind_from='west') False\n"


def test_help_has_the_verb_and_its_options() -> None:
    """A group leaves no trace in the help, which has the verb's words and each field's."""
    told = run("--help")
    for words in ("Tell it.", "--rain", "How much.", "--wind", "Where it comes from.", "--debug"):
        assert words in told, words


@pytest.mark.parametrize(
    "verb", [("compact",), ("unschedule",), ("rollback",), ("metadata", "disable"), ("metadata", "drop")]
)
def test_each_verb_that_writes_takes_the_statements(verb: tuple[str, ...]) -> None:
    """What is said of other writers and their lock is said alike to every verb that writes."""
    told = CliRunner().invoke(lakeward, [*verb, "--help"], env={"COLUMNS": "200"}).output
    for option in ("--writers", "--lock", "--lock-zookeeper-path", "--lock-wait", "--lock-expire"):
        assert option in told, option
