"""What the command-line library would do otherwise with a group of verbs: its slips, Ctrl-C, and options not given.

Touches: nothing before a verb is carried out.
Keeps:   1. Ctrl-C anywhere in a verb comes out as `Cancelled`, with what was rolled back as its notes;
         2. a flag that is not given is false, not absent: the library would load Pydantic to look at what is absent.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from lakeward.base.errors import Cancelled, UsageError

_ENGINE = "--engine"
_RETIRED = {
    "--local": (_ENGINE, "local"),
    "--spark": (_ENGINE, "spark"),
    "--local-below": (_ENGINE, "local, spark or auto"),
}
"""Options that are no more: the option in their place, and what is written behind it."""

_Slip: Any = typer.BadParameter.__base__
"""What the library raises for every slip in the words; only this kind of it has a public name."""
_HelpWanted: Any = tuple(kind for kind in _Slip.__subclasses__() if kind.__name__ == "NoArgsIsHelpError")


class Verb(TyperCommand):
    """A verb that takes nothing but flags."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _false_unless_given(super().get_params(ctx))


class VerbGroup(TyperGroup):
    """The library would end with 130 and no word, and put what it says of a slip into a box of 80 columns."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _false_unless_given(super().get_params(ctx))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List each verb with the whole first sentence of its help; the library would cut it where the line ends."""
        verbs = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        shown = [(name, verb.get_short_help_str(sys.maxsize)) for name, verb in verbs if verb and not verb.hidden]
        with formatter.section("Commands"):
            formatter.write_dl(shown)

    def make_context(self, *words: Any, **named: Any) -> Any:
        with _told():
            return super().make_context(*words, **named)

    def invoke(self, ctx: Any) -> Any:
        with _told():
            return super().invoke(ctx)


def new_group(told: str) -> typer.Typer:
    """A group whose verbs are added to it; `told` begins its help."""
    # The library's boxes take as long to load as all the rest of `--help`: the help is plain text.
    return typer.Typer(
        help=told, cls=VerbGroup, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False
    )


def _false_unless_given(parameters: list[Any]) -> list[Any]:
    for parameter in parameters:
        if getattr(parameter, "is_flag", False) and parameter.default is None:
            parameter.default = False
    return parameters


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except _Slip as slip:
        if isinstance(slip, _HelpWanted):
            raise
        words = getattr(getattr(slip, "ctx", None), "command_path", "lakeward")
        if retired := _find_retired(slip):
            raise retired from slip
        raise UsageError(
            " ".join(slip.format_message().replace("Value error, ", "").split()),
            remedy=f"`{words} --help` explains its options.",
        ) from slip
    except KeyboardInterrupt as interrupt:
        error = Cancelled("Interrupted.")
        for note in getattr(interrupt, "__notes__", ()):
            error.add_note(note)
        raise error from interrupt


def _find_retired(slip: Any) -> UsageError | None:
    """What to write in the place of an option that the verb had once."""
    name = getattr(slip, "option_name", "")
    option, value = _RETIRED.get(name, ("", ""))
    known = {each for parameter in slip.ctx.command.params for each in parameter.opts} if option else ()
    if option not in known:
        return None
    return UsageError(f"There is no option {name} any more.", remedy=f"Write {option} {value}.")
