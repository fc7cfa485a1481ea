"""Options that several verbs take are declared once: a verb's parameter that is a dataclass stands for its fields.

    @with_option_groups
    def unschedule(table: TableArgument, stated: StatedLocks, dry_run: ... = False)

takes every field of `StatedLocks` as an option, in this place of `--help`, and is called with the value made of them.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints


def with_option_groups(verb: Callable[..., None]) -> Callable[..., None]:
    """The verb as the command line sees it, without groups. Two options of one name are a programming error."""
    hints = get_type_hints(verb, include_extras=True)
    groups = {name: kind for name, kind in hints.items() if is_dataclass(kind) and isinstance(kind, type)}
    parameters: list[Parameter] = []
    for parameter in signature(verb).parameters.values():
        if parameter.name in groups:
            parameters += _options(groups[parameter.name])
        else:
            annotation = hints[parameter.name]
            parameters.append(parameter.replace(annotation=annotation, kind=Parameter.KEYWORD_ONLY))

    def command(**given: Any) -> None:
        made = {
            name: group(**{field.name: given.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        verb(**given, **made)

    command.__name__, command.__doc__ = verb.__name__, verb.__doc__
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return command


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
