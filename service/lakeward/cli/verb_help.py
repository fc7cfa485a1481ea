"""The help of a verb as data, so that `lakeward VERB --help` loads no module of the verb.

    verb, loaded --`make command-page`--> `verb_help.json` --> `StoredVerb` --> help, as wide as the terminal

Options are declared in signatures, beside the imports of the work, which take up to two seconds of CPU.

Touches: `verb_help.json`, reading.
Keeps:   what is stored of a verb is what the verb says of itself.
See:     docs/decisions/0121-help-is-stored.md
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from textwrap import wrap
from typing import Any, TypedDict

from typer.core import TyperCommand

STORED = Path(__file__).with_suffix(".json")


class SharedPanel(StrEnum):
    """Panels of options that many verbs share: a verb's own help names them, and `lakeward help options` explains
    them. Options of other panels are the verb's own."""

    TABLE = "The table"
    STORE = "The store"
    SERVER = "The daemon"
    WRITERS = "The table's other writers"
    OUTPUT = "Output"
    ENGINE = "Where work runs"


class VerbHelp(TypedDict):
    help: str
    example: str
    usage: list[str]
    """The words behind the verb: [OPTIONS] TABLE."""
    sections: dict[str, list[list[str]]]
    """Arguments and options of the verb's own, by heading: how each is written, and what it does."""
    shared: dict[str, list[str]]
    """Options that many verbs share, by panel."""


class StoredVerb(TyperCommand):
    """A verb that can only explain itself."""

    def __init__(self, name: str, stored: VerbHelp) -> None:
        super().__init__(
            name,
            help=stored["help"],
            epilog=stored["example"],
            context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
            rich_markup_mode=None,
        )
        self._stored = stored

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return self._stored["usage"]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        write_help(self._stored, formatter)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        write_example(self.epilog, ctx, formatter)


class StoredHelp(TypedDict):
    verbs: dict[str, VerbHelp]
    """Each verb by its words."""
    options: dict[str, list[list[str]]]
    """Options that many verbs share, explained, by panel."""


def read_stored() -> StoredHelp:
    stored: StoredHelp = json.loads(STORED.read_text(encoding="utf-8"))
    return stored


def stored_verb(words: Sequence[str]) -> StoredVerb | None:
    """The verb of these words; None where nothing is stored of it, as for groups and old names."""
    stored = read_stored()["verbs"].get(" ".join(words))
    return None if stored is None else StoredVerb(words[-1], stored)


def help_of(command: Any, ctx: Any) -> VerbHelp:
    """What a loaded verb says of itself."""
    parameters = command.get_params(ctx)
    shared = shared_by_panel(parameters)
    own = [each for each in parameters if all(each not in options for options in shared.values())]
    sections: dict[str, list[list[str]]] = {"Arguments": []}
    # A verb with few options has no panels; of one that has, those in none, such as --help, come last.
    for each in sorted(own, key=lambda parameter: _panel_of(parameter) is None):
        if record := each.get_help_record(ctx):
            is_argument = each.param_type_name == "argument"
            heading = "Arguments" if is_argument else _panel_of(each) or "Options"
            sections.setdefault(heading, []).append(list(record))
    return VerbHelp(
        help=command.help or "",
        example=command.epilog or "",
        usage=command.collect_usage_pieces(ctx),
        sections=sections,
        shared={panel: [option.opts[0] for option in options] for panel, options in shared.items()},
    )


def explained(parameters: Sequence[Any], ctx: Any) -> list[list[str]]:
    """How each parameter is written, and what it does; without those that help leaves out."""
    records = [each.get_help_record(ctx) for each in parameters]
    return [list(record) for record in records if record is not None]


def write_help(verb: VerbHelp, formatter: Any) -> None:
    """Explain the options that are the verb's own; name those that many verbs share."""
    for heading, records in verb["sections"].items():
        write_explained(heading, records, formatter)
    if verb["shared"]:
        with formatter.section("Shared options, which `lakeward help options` explains"):
            for panel, names in verb["shared"].items():
                indent, room = " " * formatter.current_indent, formatter.width - formatter.current_indent
                for line in wrap(f"{panel}: {', '.join(names)}", room, subsequent_indent="  ", break_on_hyphens=False):
                    formatter.write(f"{indent}{line}\n")


def write_explained(heading: str, records: list[list[str]], formatter: Any) -> None:
    if records:
        with formatter.section(heading):
            formatter.write_dl([tuple(record) for record in records])


def write_example(example: str | None, ctx: Any, formatter: Any) -> None:
    if example is not None:
        with formatter.section("Example"):
            formatter.write_dl([(f"{ctx.command_path} {example}".rstrip(), "")])


def shared_by_panel(parameters: Sequence[Any]) -> dict[str, list[Any]]:
    """The options that many verbs share, which name their panel where they are declared."""
    found: dict[str, list[Any]] = {}
    for parameter in parameters:
        if isinstance(panel := _panel_of(parameter), SharedPanel):
            found.setdefault(str(panel), []).append(parameter)
    return found


def _panel_of(parameter: Any) -> str | None:
    return getattr(parameter, "rich_help_panel", None)
