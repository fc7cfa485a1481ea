"""The keys of the configuration as values: how each is written, its default, what it is for.

Errors, `config show` and the reference in the documentation are made from these, so that none of them can disagree
with the models.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

import orjson
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from lakeward.base.printable import HIDDEN
from lakeward.base.quantities import write_duration, write_size
from lakeward.config.settings import Settings, TableOverride
from lakeward.protocol.section import SettingKind


@dataclass(frozen=True, slots=True)
class Key:
    """One key of one section."""

    section: str
    """`service`, `locks.zookeeper`, `defaults`, `tables`."""
    name: str
    kind: str
    default: str | None
    """The default in the form of the file; None where leaving the key out means something of its own."""
    description: str
    restart: bool
    """It cannot change while the daemon runs."""

    @property
    def is_quantity(self) -> bool:
        return self.kind.startswith(("duration", "size"))


@dataclass(frozen=True, slots=True)
class Section:
    name: str
    description: str
    keys: tuple[Key, ...]


def sections() -> tuple[Section, ...]:
    """Sections in the order of the models. What a table may override is described once, under [defaults]."""
    found: list[Section] = []
    for name, field in Settings.model_fields.items():
        if (model := model_of(field.annotation)) is None or name == "tables":
            continue
        found += _sections_of(name, model)
    shared = frozenset(TableOverride.model_fields) - {"match", "path", "name", "locks"}
    return (*found, _section("tables", TableOverride, omitted=shared))


def key_of(model: type[BaseModel], section: str, name: str) -> Key:
    field = model.model_fields[name]
    extra = field.json_schema_extra if isinstance(field.json_schema_extra, Mapping) else {}
    return Key(
        section,
        name,
        kind_of(field),
        _default(field),
        (field.description or "").strip().replace("\n", " "),
        restart=bool(extra.get("restart")),
    )


def model_of(annotation: Any) -> type[BaseModel] | None:
    """The model of a table, of an optional one, or of an array of tables."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for part in get_args(annotation) if (model := model_of(part)) is not None), None)


def kind_of(field: FieldInfo) -> str:
    own = [part.text for part in field.metadata if isinstance(part, SettingKind)]
    return own[-1] if own else _kind(field.annotation)  # a narrower kind is behind the one it narrows


def write_value(value: object, kind: str = "") -> str:
    """The value in the form of the file."""
    match value:
        case SecretStr():
            return f'"{HIDDEN}"'
        case None:
            return '"none"'
        case bool():
            return "true" if value else "false"
        case float() if kind.startswith("duration"):
            return f'"{write_duration(value)}"'
        case int() if kind.startswith("size"):
            return f'"{write_size(value)}"'
        case int() | float():
            return f"{value:g}" if isinstance(value, float) else str(value)
        case BaseModel():
            fields = type(value).model_fields
            given = (f"{key} = {write_value(getattr(value, key), kind_of(fields[key]))}" for key in given_keys(value))
            return "{ " + ", ".join(given) + " }"
        case Mapping():
            pairs = (f"{write_key(key)} = {write_value(item)}" for key, item in value.items())
            return "{ " + ", ".join(pairs) + " }" if value else "{}"
        case str():
            return orjson.dumps(str(value)).decode()
        case Sequence():
            return f"[{', '.join(write_value(item) for item in value)}]"
        case _:
            return orjson.dumps(str(value)).decode()


def given_keys(section: BaseModel) -> list[str]:
    """Keys of the section that were given, in the order of the model."""
    return [key for key in type(section).model_fields if key in section.model_fields_set]


def write_key(key: str) -> str:
    bare = key.replace("-", "").replace("_", "")
    return key if bare.isalnum() and bare.isascii() else orjson.dumps(key).decode()


def _models_in(model: type[BaseModel]) -> Iterator[tuple[str, type[BaseModel]]]:
    for key, field in model.model_fields.items():
        if (inner := model_of(field.annotation)) is not None:
            yield key, inner


def _sections_of(name: str, model: type[BaseModel]) -> Iterator[Section]:
    """The section of a model, and those in it."""
    yield _section(name, model, omitted=frozenset(dict(_models_in(model))))
    for key, inner in _models_in(model):
        # [defaults] has no locks of its own: those are under [locks].
        if (name, key) != ("defaults", "locks"):
            yield from _sections_of(f"{name}.{key}", inner)


def _section(name: str, model: type[BaseModel], *, omitted: frozenset[str]) -> Section:
    keys = tuple(_keys(name, model, omitted))
    return Section(name, (model.__doc__ or "").strip().replace("\n    ", " "), keys)


def _keys(section: str, model: type[BaseModel], omitted: frozenset[str]) -> Iterator[Key]:
    for name in model.model_fields:
        if name not in omitted:
            yield key_of(model, section, name)


def _default(field: FieldInfo) -> str | None:
    if field.default_factory is not None or field.default is None:
        return None
    return write_value(field.default, kind_of(field))


def _kind(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        own = [part.text for part in arguments[1:] if isinstance(part, SettingKind)]
        return own[-1] if own else _kind(arguments[0])
    if origin is Literal:
        return _one_of(arguments)
    if origin is tuple:
        return f"list, each: {_kind(arguments[0])}"
    if origin is dict:
        return f"table, each value: {_kind(arguments[1])}"
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return _one_of(tuple(annotation))
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "table"
    assert arguments, f"a key of type {annotation} says how it is written"
    return next(_kind(part) for part in arguments if part is not NoneType)


def _one_of(values: Sequence[str]) -> str:
    return " or ".join(f'"{value!s}"' for value in values)
