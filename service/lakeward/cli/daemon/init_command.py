"""`lakeward init`: the first configuration of a daemon, from five questions or from options.

    options -> questions for what they do not say, on a terminal -> the text, checked in a temporary folder
            -> the file, and a token beside it -> the tables that are found, and what each would be refused for

Touches: stdin and stderr for the questions; a temporary folder; the configuration and its token, created once; the
         places that it names, which are only read.
Keeps:   1. a file that is there is left as it is, unless --overwrite is given, and a token always;
         2. nothing is written before `config check` finds no problem.
"""

from __future__ import annotations

import os
import secrets
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from lakeward.base.did_you_mean import did_you_mean
from lakeward.base.errors import Cancelled, ConfigurationError, LakewardError, UsageError
from lakeward.base.quantities import format_count
from lakeward.cli.configured_table import ConfiguredTable
from lakeward.cli.daemon.config_commands import checked_file, why_nothing_is_written
from lakeward.cli.options.new_file import write_new
from lakeward.cli.result import Result, shown
from lakeward.config.discovery import Discovered, find_tables
from lakeward.config.file import ConfigProblem
from lakeward.config.first_configuration import ENGINES, FirstConfiguration, WritersAnswer
from lakeward.config.listen_address import local_address
from lakeward.config.settings import KeyPath, Settings, Writers
from lakeward.config.toml_positions import find_positions
from lakeward.protocol.options import state_folder
from lakeward.protocol.refusals.eligibility import TableService, find_refusals
from lakeward.storage.storage_of_url import open_root, open_storage

EXAMINED_MAX = 20
"""So many of the tables are looked into; of others it is said that they were found."""

_OPTION_OF: Mapping[KeyPath, str] = {
    ("discovery", "roots"): "--tables",
    ("service", "engine"): "--engine",
    ("spark", "master"): "--engine",
    ("spark", "remote"): "--engine",
    ("service", "state_folder"): "--state",
    ("state", "url"): "--state",
    ("service", "listen"): "--listen",
    ("http", "token_file"): "--listen",
    ("locks", "writers"): "--writers",
    ("locks", "provider"): "--writers",
}
"""What a problem with a key is a problem with."""


def init(
    file: Annotated[Path, typer.Argument(metavar="[FILE]", help="The file to write.")] = Path("lakeward.toml"),
    tables: Annotated[
        list[str] | None,
        typer.Option(
            "--tables", metavar="PLACE", help="A folder or URL: a table, or what tables lie below. Repeatable."
        ),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(metavar="ENGINE", help="What runs jobs: auto, local, spark, or Spark's master. Default: auto."),
    ] = None,
    state: Annotated[
        str | None,
        typer.Option(metavar="PLACE", help="Where state is kept: a folder, or the URL of a store in PostgreSQL."),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Address of the page. Where other machines reach it, a token is made beside the file.",
        ),
    ] = None,
    writers: Annotated[
        WritersAnswer | None,
        typer.Option(
            help="What the tables' other writers do. unknown (the default): tables are only planned and shown; "
            "stopped: none is at work; filesystem, storage: they go on, and share that lock of Hudi.",
            show_default=False,
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Ask nothing: what no option says is as by default.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file where there is one.")] = False,
) -> Result:
    """Write a first configuration, from five questions. It is checked, and the tables too; nothing is started.

    Without a terminal, or with --yes, nothing is asked, and --tables is needed.
    """
    _check_place(file, overwrite=overwrite)
    writing = _Writing(file, overwrite)
    said = {
        "--tables": ",".join(tables or ()),
        "--engine": engine,
        "--state": state,
        "--listen": listen,
        "--writers": writers,
    }
    first = FirstConfiguration(tables=())
    for question in _QUESTIONS:
        if (answer := said[question.option]) is not None:
            first = question.answered(first, answer)
    if sys.stdin.isatty() and not yes:
        for question in _QUESTIONS:
            if not said[question.option]:
                first = _ask(question, first, writing)
    if not first.tables:
        raise UsageError(
            "No place of tables is named.",
            why="Where nothing is asked, the options say all.",
            remedy="Name a folder or URL, `lakeward init --tables /data/lake`.",
        )
    settings, problems = writing.check(first)
    if settings is None or problems:
        error = ConfigurationError(
            f"{file} was not written: {format_count(len(problems), 'problem')}.",
            why="The daemon would not start with it, or would not find what it names.",
            remedy="Correct what is named below.",
        )
        for problem in problems:
            error.add_note(str(problem))
        raise error
    token = writing.write(first)
    return _result(first, settings, file, token)


@dataclass(frozen=True, slots=True)
class _Question:
    option: str
    text: str
    answered: Callable[[FirstConfiguration, str], FirstConfiguration]
    """Raises `UsageError`."""
    default: str = ""


def _places(given: Sequence[str]) -> tuple[str, ...]:
    """Folders from the working folder on, as the daemon may be started in another one."""
    places = (each.strip() for text in given for each in text.split(","))
    return tuple(dict.fromkeys(each if "://" in each else _absolute(each) for each in places if each))


def _absolute(folder: str) -> str:
    return os.path.abspath(os.path.expanduser(folder))


def _with_engine(first: FirstConfiguration, answer: str) -> FirstConfiguration:
    is_master = "://" in answer or answer.startswith("local[") or answer == "yarn"
    if answer not in ENGINES and not is_master:
        raise UsageError(
            f"--engine cannot be {answer}.",
            why=did_you_mean(answer, ENGINES),
            remedy="Write auto, local, spark, or a master of Spark like spark://host:7077.",
        )
    return replace(first, engine=answer)


def _with_state(first: FirstConfiguration, answer: str) -> FirstConfiguration:
    return replace(first, state=answer if "://" in answer else _absolute(answer))


def _with_writers(first: FirstConfiguration, answer: str) -> FirstConfiguration:
    if answer not in tuple(WritersAnswer):
        raise UsageError(
            f"--writers cannot be {answer}.",
            why=did_you_mean(answer, tuple(WritersAnswer)),
            remedy=f"Write {', '.join(WritersAnswer)}.",
        )
    return replace(first, writers=WritersAnswer(answer))


_QUESTIONS = (
    _Question(
        "--tables",
        "Where are the tables? Folders or URLs, with commas between them.",
        lambda first, answer: replace(first, tables=_places((answer,))),
    ),
    _Question(
        "--engine",
        "What runs jobs? auto (by size), local (this machine, without Spark), spark, or Spark's master.",
        _with_engine,
        "auto",
    ),
    _Question("--state", "Where is state kept? A folder, or the URL of a store in PostgreSQL.", _with_state),
    _Question(
        "--listen",
        "At which address is the page? For one that other machines reach a token is made.",
        lambda first, answer: replace(first, listen=answer),
        "127.0.0.1:8490",
    ),
    _Question(
        "--writers",
        "What do the tables' other writers do? unknown: plan and show, write nothing; stopped: none is at work;\n"
        "filesystem, storage: they go on, and share that lock of Hudi.",
        _with_writers,
        WritersAnswer.UNKNOWN,
    ),
)


def _ask(question: _Question, first: FirstConfiguration, writing: _Writing) -> FirstConfiguration:
    """Asks until there is nothing wrong with the answer."""
    default = question.default or (str(state_folder()) if question.option == "--state" else "")
    number = _QUESTIONS.index(question) + 1
    typer.echo(f"\n{number} of {len(_QUESTIONS)}  {question.text}", err=True)
    while True:
        typer.echo(f"   [{default}] " if default else "   ", err=True, nl=False)
        line = sys.stdin.readline()
        if not line:
            raise Cancelled("No answer came.")
        answer = line.strip()
        if not answer and default:
            return first
        try:
            changed = question.answered(first, answer)
        except UsageError as error:
            typer.echo(shown("\n".join(part for part in (error.what, error.why, error.remedy) if part)), err=True)
            continue
        problems = [each for each in writing.check(changed)[1] if each.where == question.option]
        if not problems:
            return changed
        typer.echo(shown("\n".join(map(str, problems))), err=True)


def _check_place(file: Path, *, overwrite: bool) -> None:
    if not file.parent.is_dir():
        raise UsageError(f"There is no folder {file.parent}.", remedy="Make it, or name another place of the file.")
    if file.is_dir() or (file.exists() and not overwrite):
        raise UsageError(
            f"{file} is there already.",
            why="A configuration is not replaced by chance.",
            remedy="Name another file, `lakeward init FILE`, or pass --overwrite.",
        )


@dataclass(frozen=True, slots=True)
class _Writing:
    file: Path
    overwrite: bool

    @property
    def _token_file(self) -> Path:
        return self.file.with_name(f"{self.file.stem}-token")

    def check(self, first: FirstConfiguration) -> tuple[Settings | None, tuple[ConfigProblem, ...]]:
        """What `config check` finds in the file that would be written; the place of a problem is an option."""
        with tempfile.TemporaryDirectory(prefix="lakeward-init-") as name:
            copy, token = Path(name) / self.file.name, Path(name) / self._token_file.name
            copy.write_text(text := self._text(first))
            token.write_text(self._token_file.read_text() if self._token_file.exists() else _new_token())
            reading, found = checked_file(copy, {}, offline=False)
        options = {
            f"{copy}:{position}": _OPTION_OF[place[:2]]
            for place, position in find_positions(text).items()
            if place[:2] in _OPTION_OF
        }
        return reading.settings, tuple(
            replace(each, where=options.get(each.where, each.where.replace(str(copy), str(self.file))))
            for each in found
        )

    def write(self, first: FirstConfiguration) -> Path | None:
        """Returns the file of the token, where one is needed."""
        token = self._token_file if first.needs_token else None
        if token is not None and not token.exists():
            write_new("The file of the token", token, f"{_new_token()}\n".encode(), mode=0o600)
        text = self._text(first)
        if self.overwrite and self.file.exists():
            new = self.file.with_name(f".{self.file.name}.new")
            new.write_text(text)
            new.replace(self.file)
        else:
            write_new("FILE", self.file, text.encode(), mode=0o644)
        return token

    def _text(self, first: FirstConfiguration) -> str:
        return first.text(name=str(self.file), token_file=self._token_file.name)


def _new_token() -> str:
    return secrets.token_hex(24)


def _result(first: FirstConfiguration, settings: Settings, file: Path, token: Path | None) -> Result:
    found = find_tables(settings, open_root=open_root)
    examined = [_examined(base_path, settings) for base_path in found.tables[:EXAMINED_MAX]]
    run, address = f"lakeward run --config {file}", f"http://{local_address(first.listen)}"
    why_not = why_nothing_is_written(settings)
    lines = [f"{file} is written.", "", *_about_tables(found, examined), "", f"Start the daemon:  {run}"]
    lines.append(f"Then open {address}" + (f", with the token in {token} as the password." if token else ""))
    return Result(
        document={
            "file": str(file),
            "token_file": None if token is None else str(token),
            "tables": examined,
            "tables_found": len(found.tables),
            "problems": [{"path": each.path, "why": each.why} for each in found.problems],
            "nothing_is_written_because": why_not,
            "next": run,
        },
        lines=lines,
        notes=[] if why_not is None else [f"Nothing will be written to tables: {why_not}"],
    )


def _examined(base_path: str, settings: Settings) -> dict[str, Any]:
    """What a table is, and why it would not be compacted; of one that cannot be read, why."""
    kind, version = None, None
    try:
        storage, _ = open_storage(base_path)
        opened = ConfiguredTable(None, storage, base_path, settings, None)
        snapshot, is_shared = opened.snapshot(), opened.locks.writers is Writers.SHARE
        kind, version = snapshot.config.table_type, snapshot.config.version.number
        refusals = find_refusals(snapshot, TableService.COMPACTION, beside_writers=is_shared)
        reasons = [f"{each.why} {each.remedy}" for each in refusals]
    except LakewardError as error:
        reasons = [f"{error.what} {error.why} {error.remedy}".strip()]
    except OSError as error:
        reasons = [f"It cannot be read: {error.strerror or error}."]
    return {"base_path": base_path, "type": kind, "version": version, "refused": reasons}


def _about_tables(found: Discovered, examined: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = [f"{format_count(len(found.tables), 'table')} found."]
    if not found.tables:
        lines[0] += " The daemon looks again once a minute."
    for each in examined:
        about = "" if each["version"] is None else f"{each['type']}, version {each['version']}: "
        lines.append(f"   {each['base_path']}  {about}{each['refused'][0] if each['refused'] else 'can be serviced'}")
    if len(found.tables) > len(examined):
        lines.append(f"   and {len(found.tables) - len(examined):,} more, which were not looked into")
    return [*lines, *(f"   {each.path}  {each.why}" for each in found.problems)]
