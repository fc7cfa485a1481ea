"""What a section of the configuration is made of: its model, and the kinds of values that several sections have.

A service keeps its section in `services/<name>/settings.py`, and `config/settings.py` puts these together.

Touches: nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    StringConstraints,
    WithJsonSchema,
)

from lakeward.base.errors import UsageError
from lakeward.base.quantities import parse_duration, parse_size
from lakeward.storage.storage_of_url import open_storage

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SettingKind:
    """How values of a key are written, for people: part of its type, shown in the reference and in errors."""

    text: str


def _duration(value: object) -> object:
    if isinstance(value, str):
        return parse_duration(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError("A duration is written like 90s, 15m, 2h or as a number of seconds.")
    return float(value)


def _duration_or_off(value: object) -> object:
    if value == "none":
        return None
    try:
        return _duration(value)
    except ValueError as error:
        raise ValueError(f"{error} Or write none.") from error


def size_of(value: object) -> object:
    if isinstance(value, str):
        return parse_size(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError("A size is written like 512MiB, 2GiB or as a number of bytes.")
    return int(value)


def _size_or_off(value: object) -> object:
    if value == "none":
        return None
    try:
        return size_of(value)
    except ValueError as error:
        raise ValueError(f"{error} Or write none.") from error


def _verbatim(value: object) -> object:
    """A value that another program reads as text: numbers and booleans as TOML writes them."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


def _one_list(value: object) -> object:
    if isinstance(value, str):
        raise ValueError(f"It is a list, so it is written in brackets: [{value!r}].")
    return value


def checked(parse: Callable[[str], object]) -> AfterValidator:
    """The text stays as it is written, and is one that `parse` takes."""

    def check(text: str) -> str:
        try:
            parse(text)
        except UsageError as error:
            raise ValueError(f"{error.why} {error.remedy}") from error
        return text

    return AfterValidator(check)


def _location(text: str) -> None:
    if "://" not in text and not text.startswith("/"):
        raise ValueError("It is neither an absolute path nor a URL; the daemon has no folder that it starts from.")
    open_storage(text)


_DURATION_SCHEMA = WithJsonSchema({"type": ["string", "number"], "description": "90s, 15m, 2h; a number is seconds"})
SIZE_SCHEMA = WithJsonSchema({"type": ["string", "number"], "description": "512MiB, 2GiB; a number is bytes"})
Flag = Annotated[bool, Strict(), SettingKind("true or false")]
Count = Annotated[int, Strict(), Field(ge=1), SettingKind("whole number from 1")]
Share = Annotated[float, Field(gt=0, le=1), SettingKind("number above 0, up to 1")]
Duration = Annotated[float, BeforeValidator(_duration), Field(gt=0), _DURATION_SCHEMA, SettingKind("duration above 0")]
DurationOrNone = Annotated[float, BeforeValidator(_duration), Field(ge=0), _DURATION_SCHEMA, SettingKind("duration")]
DurationOrOff = Annotated[
    Annotated[float, Field(gt=0)] | None,
    BeforeValidator(_duration_or_off),
    WithJsonSchema({"type": ["string", "number"], "description": "90s, 15m, 2h; a number is seconds; or none"}),
    SettingKind("duration above 0, or none"),
]
Size = Annotated[int, BeforeValidator(size_of), Field(gt=0), SIZE_SCHEMA, SettingKind("size above 0")]
SizeOrOff = Annotated[
    Annotated[int, Field(ge=0)] | None,
    BeforeValidator(_size_or_off),
    WithJsonSchema({"type": ["string", "integer"], "description": "512MiB, 2GiB; a number is bytes; or none"}),
    SettingKind("size, or none"),
]
Text = Annotated[str, Strict(), StringConstraints(min_length=1), SettingKind("text")]
Verbatim = Annotated[str, BeforeValidator(_verbatim), SettingKind("text")]
Location = Annotated[str, Strict(), checked(_location), SettingKind("absolute path or URL")]
Many = Annotated[tuple[T, ...], BeforeValidator(_one_list)]


@dataclass(frozen=True, slots=True)
class SectionProblem:
    """What a section says, and what does not go together."""

    keys: tuple[str, ...]
    """Keys of the section; the first that is given is the place to look."""
    what: str
    why: str
    remedy: str


class SettingsSection(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, validate_default=False)

    added_up: ClassVar[Mapping[str, Callable[..., dict[str, str]]]] = {}
    """How keys of Hudi's settings are put together, the layer first that is given first."""

    def with_given(self, other: SettingsSection) -> Self:
        """This one, but for what the other gives and this one has. Tables of other people's keys add up."""
        given = {key: getattr(other, key) for key in other.model_fields_set & type(self).model_fields.keys()}
        for key, value in given.items():
            mine = getattr(self, key)
            if isinstance(value, SettingsSection) and isinstance(mine, SettingsSection):
                given[key] = mine.with_given(value)
            elif key in self.added_up:
                given[key] = self.added_up[key](mine, value)
        return self.model_copy(update=given)

    @property
    def record_index_location(self) -> str | None:
        """The folder in which Lakeward's record index of the table is kept, where the section names one."""
        return None

    @property
    def retires_sources(self) -> bool:
        """Its service takes what a log compaction has merged out of slices of the layout `lsm_tree`. Raises
        `UsageError`."""
        return False

    @property
    def as_hudi_has_it(self) -> dict[str, str]:
        """What it says that other sections use, by Hudi's keys. Raises `UsageError`."""
        return {}

    def problems(self, beside: Mapping[str, str]) -> Iterator[SectionProblem]:
        """What in it does not go together, or not with what other sections say.

        Args:
            beside: that, by Hudi's keys.
        """
        return iter(())
