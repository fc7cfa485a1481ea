"""What the list of verbs says of each verb, held against the verb."""

from __future__ import annotations

import inspect
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import version
from itertools import chain
from typing import Any

import pytest
from typer.main import get_command

from deploy.command_page import HAVE_ALL
from lakeward.cli.main import run
from lakeward.cli.verb_help import read_stored, shared_by_panel
from lakeward.cli.verbs import PANELS, app
from lakeward.services.verb import Verb


def all_verbs(
    verbs: tuple[Verb, ...] = tuple(chain.from_iterable(PANELS.values())), prefix: str = ""
) -> Iterator[tuple[str, Verb]]:
    for verb in verbs:
        if verb.verbs:
            yield from all_verbs(verb.verbs, f"{prefix}{verb.name} ")
        elif not verb.now:
            yield f"{prefix}{verb.name}", verb


@pytest.mark.parametrize("words, verb", [pytest.param(*each, id=each[0]) for each in all_verbs()])
def test_a_verb_is_where_the_list_says(words: str, verb: Verb) -> None:
    """Keeps of cli/verbs."""
    module, _, name = verb.place.partition(":")
    documented = inspect.getdoc(getattr(import_module(f"lakeward.cli.{module}"), name)) or ""
    listed = verb.help or read_stored()["verbs"][words]["help"]
    assert listed and documented.startswith(listed)


def command_of(words: str) -> Any:
    found: Any = get_command(app)
    for word in words.split():
        found = found.commands[word]
    return found


@pytest.mark.parametrize("words, verb", [pytest.param(*each, id=each[0]) for each in all_verbs()])
def test_the_example_of_a_verb_is_one_that_it_takes(
    words: str, verb: Verb, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each verb shows an example, whose words it takes; `help` and `-h` show the same."""
    monkeypatch.setenv("COLUMNS", "200")
    assert run(["help", *words.split()]) == 0
    explained = capsys.readouterr().out
    assert explained.partition("Example:\n  ")[2] == f"lakeward {words} {verb.example}".rstrip() + "\n"
    assert run([*words.split(), "-h"]) == 0
    assert capsys.readouterr().out == explained
    command_of(words).make_context(words, shlex.split(verb.example))


def test_options_that_many_verbs_share_are_explained_once(capsys: pytest.CaptureFixture[str]) -> None:
    """`help options` has every shared option of every verb, alike; a verb's own help only names it."""
    known = {
        option.opts[0]: option.help
        for verb in HAVE_ALL
        for each in shared_by_panel(command_of(verb).params).values()
        for option in each
    }
    assert run(["help", "options"]) == 0
    explained = capsys.readouterr().out
    assert all(f"  {name} " in explained for name in known)
    for words, _ in all_verbs():
        for options in shared_by_panel(command_of(words).params).values():
            for option in options:
                assert known[option.opts[0]] == option.help, words
    assert run(["clean", "--help"]) == 0
    named = capsys.readouterr().out.partition("Shared options, which `lakeward help options` explains:")
    assert "--lock-zookeeper-path," in named[2] and "--lock-wait" not in named[0]


def test_an_option_of_twenty_verbs_is_shared() -> None:
    """Help does not explain one option twenty times: it is in a panel of shared options."""
    own: Counter[str] = Counter()
    for words, _ in all_verbs():
        parameters = command_of(words).params
        shared = set(chain.from_iterable(shared_by_panel(parameters).values()))
        own.update(each.opts[0] for each in parameters if each.param_type_name == "option" and each not in shared)
    assert [name for name, verbs in own.items() if verbs >= 20] == []


def test_help_lists_the_verbs_in_four_panels(capsys: pytest.CaptureFixture[str]) -> None:
    """`-h`, `--help` and `help` list all verbs but old names, by panels; of a group its `-h` lists those in it."""
    texts = []
    for words in (["-h"], ["--help"], ["help"]):
        assert run(words) == 0
        texts.append(capsys.readouterr().out)
    assert len(PANELS) == 4 and len(set(texts)) == 1
    found = [texts[0].index(f"\n{panel}:\n") for panel in PANELS]
    assert found == sorted(found)
    for verb in chain.from_iterable(PANELS.values()):
        assert (f"\n  {verb.name} " in texts[0]) is not bool(verb.now), verb.name
        if verb.verbs:
            assert run([verb.name, "-h"]) == 0
            listed = capsys.readouterr().out
            assert all((f"\n  {each.name} " in listed) is not bool(each.now) for each in verb.verbs), verb.name


@pytest.mark.parametrize("words", ["compact", "index build", "write", "read"])
def test_help_loads_no_verb(words: str) -> None:
    """Keeps 3 of cli/verb_group: neither its module nor Arrow, which all work needs."""
    program = (
        "import sys; from lakeward.cli.main import run; run(sys.argv[1:]); "
        "print(sorted(name for name in sys.modules if name == 'pyarrow' or name.endswith('_command')))"
    )
    command = [sys.executable, "-c", program, *words.split(), "--help"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f"Usage: lakeward {words}" in printed and printed.splitlines()[-1] == "[]"


def test_the_version_is_an_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"lakeward {version('lakeward')}\n"


def test_help_on_what_is_no_verb(capsys: pytest.CaptureFixture[str]) -> None:
    """A slip in the words of `help` is a slip as any other."""
    assert run(["help", "metdata"]) == 2
    assert "Did you mean 'metadata'?" in capsys.readouterr().err


def test_what_is_not_said_stays_unsaid() -> None:
    """A flag with two words that is not given is None, which means what the table or the configuration says."""
    write = command_of("write")
    defaults = {parameter.name: parameter.default for parameter in write.get_params(write.context_class(write))}
    assert defaults["update_partition_path"] is None
