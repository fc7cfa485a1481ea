"""The frame of the command line: a group knows its verbs by name, and loads the module of the one that is called.

    words -> group -> `Verb`, which is data -> its module is imported -> options are read -> the verb is carried out
                                                                     -> its `Result` is printed -> exit code

So the module of a verb imports all that its work needs at its top, and neither `lakeward --help` nor another verb loads
it. A parameter of a verb that is a dataclass stands for its fields, which are options in this place of `--help`:

    def unschedule(*, opened: ZonedTable, locks: LockArguments, dry_run: ... = False) -> Result

takes TABLE, --config, --timezone and what `LockArguments` has, and is called with the table opened. What the
command-line library would do otherwise is here too: its slips, Ctrl-C, and options not given.

Touches: nothing before a verb is carried out; then stdout and stderr, through its result.
Keeps:   1. Ctrl-C anywhere in a verb, or while it is loaded, comes out as `Cancelled`, with what was rolled back as its
            notes;
         2. a flag of the library's, such as --help, that is not given is false, not absent: the library would load
            Pydantic to look at what is absent;
         3. no verb is loaded to list or explain verbs: not for the help of a group or a verb, nor to complete a word in
            a shell;
         4. a result is printed before the error or the exit code that it ends with.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import MISSING, fields, is_dataclass
from functools import partial
from importlib import import_module
from inspect import Parameter, Signature, signature
from itertools import chain
from types import MappingProxyType
from typing import Any, get_args, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from lakeward.base.errors import Cancelled, UsageError
from lakeward.base.named_key import keys_shown
from lakeward.cli.result import (
    NOTHING_EXIT,
    DebugOption,
    ExitCodeOption,
    JsonOption,
    Result,
    Show,
    ShowKeysOption,
    print_json,
)
from lakeward.cli.verb_help import help_of, read_stored, stored_verb, write_example, write_help
from lakeward.services.verb import Verb

_RETIRED = {
    "--local": ("--engine", "Write --engine local."),
    "--spark": ("--engine", "Write --engine spark."),
    "--local-below": ("--engine", "Write --engine local, spark or auto."),
    "--undo": ("--quarantine-max", "Run `lakeward quarantine restore TABLE RUN`, with the other options as they are."),
}
"""Options that are no more: an option of the verbs that had them, and the remedy."""

_Slip: Any = typer.BadParameter.__base__
"""What the library raises for every slip in the words; only this kind of it has a public name."""
_HelpWanted: Any = tuple(kind for kind in _Slip.__subclasses__() if kind.__name__ == "NoArgsIsHelpError")


class VerbCommand(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        return _false_unless_given(super().get_params(ctx))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        write_help(help_of(self, ctx), formatter)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        write_example(self.epilog, ctx, formatter)


class _RenamedVerb(TyperCommand):
    def __init__(self, verb: Verb) -> None:
        takes_any = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
        super().__init__(verb.name, help=verb.help, hidden=True, context_settings=takes_any)
        self._now = verb.now

    def invoke(self, ctx: Any) -> Any:
        name = " ".join(word for word in self._now.split() if word.islower())
        raise UsageError(
            f"`{ctx.command_path}` is called `lakeward {name}` now.",
            why=self.help or "",
            remedy=f"Run `lakeward {self._now}`, with the same options.",
        )


class VerbGroup(TyperGroup):
    """The library would end with 130 and no word, and put what it says of a slip into a box of 80 columns."""

    panels: Mapping[str, tuple[Verb, ...]] = MappingProxyType({})

    def __init__(self, **named: Any) -> None:
        super().__init__(**named)
        self.commands: Any = _Commands([verb for verbs in self.panels.values() for verb in verbs])

    def get_params(self, ctx: Any) -> list[Any]:
        return _false_unless_given(super().get_params(ctx))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the verb that the words name; where they ask for its help and that is stored, without loading it."""
        path = [*ctx.command_path.split()[1:], args[0]]
        is_asked = args[0] in self.commands and any(word in ctx.help_option_names for word in args[1:])
        if is_asked and (stored := stored_verb(path)) is not None:
            return args[0], stored, args[1:]
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List each verb with the whole first sentence of its help; the library would cut it where the line ends."""
        listed = self._listed(ctx)
        for panel, verbs in self.panels.items():
            named = [verb.name for verb in verbs if not verb.now]
            with formatter.section(panel):
                formatter.write_dl([(name, listed[name].get_short_help_str(sys.maxsize)) for name in named])

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        loading, self.commands = self.commands, self._listed(ctx)
        try:
            return super().shell_complete(ctx, incomplete)
        finally:
            self.commands = loading

    def _listed(self, ctx: Any) -> dict[str, TyperCommand]:
        """The verbs as lists show them, none of them loaded."""
        stored, path = read_stored()["verbs"], ctx.command_path.split()[1:]
        return {
            verb.name: TyperCommand(
                verb.name,
                help=verb.help or stored[" ".join((*path, verb.name))]["help"],
                hidden=bool(verb.now),
            )
            for verb in chain.from_iterable(self.panels.values())
        }

    def make_context(self, *words: Any, **named: Any) -> Any:
        with _as_own_errors():
            return super().make_context(*words, **named)

    def invoke(self, ctx: Any) -> Any:
        with _as_own_errors():
            return super().invoke(ctx)


class _Commands(Mapping[str, Any]):
    """The library's commands of a group; each is made when it is taken."""

    def __init__(self, verbs: Sequence[Verb]) -> None:
        self._verbs = {verb.name: verb for verb in verbs}
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = _command_of(self._verbs[name])
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._verbs  # a mapping's own would make the command

    def __iter__(self) -> Iterator[str]:
        return iter(self._verbs)

    def __len__(self) -> int:
        return len(self._verbs)


def new_group(introduction: str, panels: Mapping[str, tuple[Verb, ...]]) -> typer.Typer:
    """A group of these verbs, which its help lists by panels, below the introduction."""
    kind = type("VerbGroup", (VerbGroup,), {"panels": panels})
    # The library's boxes take as long to load as all the rest of `--help`: the help is plain text.
    return typer.Typer(
        help=introduction,
        cls=kind,
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )


def _command_of(verb: Verb) -> Any:
    """What the library carries out for a verb, whose module is loaded here."""
    if verb.verbs:
        made: Any = get_group(new_group(verb.help, {"Commands": verb.verbs}))
        made.name = verb.name
        return made
    if verb.now:
        return _RenamedVerb(verb)
    module, _, function = verb.place.partition(":")
    alone = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)
    alone.command(verb.name, cls=VerbCommand, epilog=verb.example)(
        as_command(getattr(import_module(f"lakeward.cli.{module}"), function), has_exit_code=verb.has_exit_code)
    )
    return get_command(alone)


def as_command(verb: Callable[..., Result | None], *, has_exit_code: bool = False) -> Callable[..., None]:
    """The verb as the library sees it: without groups, and with the options of a result where it returns one. Two
    options of one name are a programming error."""
    hints = get_type_hints(verb, include_extras=True)
    groups: dict[str, type[Any]] = {}
    parameters: list[Parameter] = []
    shows = None
    for parameter in signature(verb).parameters.values():
        hint = hints[parameter.name]
        if (group := _group_in(hint)) is not None:
            groups[parameter.name] = group
            parameters += _options(group)
        elif hint == Show:
            shows = parameter.name
        else:
            parameters.append(parameter.replace(annotation=hint, kind=Parameter.KEYWORD_ONLY))
    if hints["return"] is Result:
        if has_exit_code:
            parameters.append(_flag("exit_code", ExitCodeOption))
        parameters += [_flag("as_json", JsonOption), _flag("debug", DebugOption), _flag("show_keys", ShowKeysOption)]

    def command(**given: Any) -> None:
        as_json, codes = given.pop("as_json", False), given.pop("exit_code", False)
        shows_keys = given.pop("show_keys", False)
        if hints["return"] is Result:
            del given["debug"]  # `main` reads it where there is an error
        with keys_shown() if shows_keys else nullcontext():
            made = {name: _value(group, given) for name, group in groups.items()}
            if shows is not None:
                made[shows] = partial(_show, as_json=as_json)
            result = verb(**given, **made)
            if result is not None:
                _end(result, as_json=as_json, shows_nothing=codes)

    command.__name__, command.__doc__ = verb.__name__, verb.__doc__
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return command


def _show(part: Result, *, as_json: bool) -> bool:
    if not as_json:
        part.show()
    return not as_json


def _end(result: Result, *, as_json: bool, shows_nothing: bool) -> None:
    if as_json:
        print_json(result.document)
    else:
        result.show()
    if result.error is not None:
        raise result.error
    if code := result.exit_code or (NOTHING_EXIT if shows_nothing and result.is_nothing else 0):
        raise typer.Exit(code)


def _group_in(hint: Any) -> type[Any] | None:
    """The group that a parameter stands for: its type, or what its type is made from."""
    return next((each for each in (hint, *get_args(hint)[1:]) if isinstance(each, type) and is_dataclass(each)), None)


def _value(group: type[Any], given: dict[str, Any]) -> Any:
    made = group(**{field.name: given.pop(field.name) for field in fields(group)})
    return made.resolved() if hasattr(made, "resolved") else made


def _options(group: type[Any]) -> list[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(group)
    ]


def _flag(name: str, option: Any) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=False, annotation=option)


def _false_unless_given(parameters: list[Any]) -> list[Any]:
    """The parameters, of which the library's own flags are false. Of a verb's, None says that nothing was said."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False) and not parameter.expose_value and parameter.default is None:
            parameter.default = False
    return parameters


@contextmanager
def _as_own_errors() -> Iterator[None]:
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
    beside, remedy = _RETIRED.get(name, ("", ""))
    known = {each for parameter in slip.ctx.command.params for each in parameter.opts} if beside else ()
    return UsageError(f"There is no option {name} any more.", remedy=remedy) if beside in known else None
