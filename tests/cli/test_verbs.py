"""What the list of verbs says of each verb, held against the verb."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
from typer.core import TyperCommand
from typer.main import get_command

from lakeward.cli.verb_group import Verb
from lakeward.cli.verbs import VERBS, app


def all_verbs(verbs: tuple[Verb, ...] = VERBS, prefix: str = "") -> Iterator[tuple[str, Verb]]:
    for verb in verbs:
        if verb.verbs:
            yield from all_verbs(verb.verbs, f"{prefix}{verb.name} ")
        else:
            yield f"{prefix}{verb.name}", verb


@pytest.mark.parametrize("words, verb", [pytest.param(*each, id=each[0]) for each in all_verbs()])
def test_a_verb_is_what_the_list_says(words: str, verb: Verb) -> None:
    """Keeps of cli/verbs: each verb is where the list says, and its help begins with the sentence of the list."""
    module, _, name = verb.place.partition(":")
    documented = inspect.getdoc(getattr(import_module(module), name))
    assert verb.help == TyperCommand(words, help=documented).get_short_help_str(sys.maxsize)


def test_what_is_not_said_stays_unsaid() -> None:
    """A flag with two words that is not given is None, which means what the table or the configuration says."""
    write: Any = get_command(app).commands["write"]  # type: ignore[attr-defined]
    defaults = {parameter.name: parameter.default for parameter in write.get_params(write.context_class(write))}
    assert defaults["update_partition_path"] is None
