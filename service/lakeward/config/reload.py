"""Read the configuration again while the daemon runs: all of it, or none.

A file with a problem changes nothing. Of a good one everything counts at once, but for the few keys that a running
daemon cannot change: those keep their values, and are named.

Touches: the file, through `config/file.py`.
Keeps:   what is handed back is either complete and valid, or nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel

from lakeward.config.file import ConfigProblem, Origin, read_config
from lakeward.config.reference import model_of, sections
from lakeward.config.settings import KeyPath, Settings


@dataclass(frozen=True, slots=True)
class Reloaded:
    """What came of it. `settings` None: the old ones stay, and `problems` say why."""

    settings: Settings | None
    problems: tuple[ConfigProblem, ...] = ()
    changed: tuple[str, ...] = ()
    """Keys that have another value now."""
    needs_restart: tuple[str, ...] = ()
    """Keys that the file would change, and that keep their value until a restart."""
    origins: Mapping[KeyPath, Origin] = field(default_factory=dict)
    """The origin of every value that was given."""


def reload(
    current: Settings, path: Path | None, environ: Mapping[str, str], overrides: Mapping[str, str] | None = None
) -> Reloaded:
    """The settings that count from now on. Environment and flags are those that the process was started with."""
    reading = read_config(path, environ, overrides)
    if reading.settings is None:
        return Reloaded(None, reading.problems)
    different = tuple(_differences(current, reading.settings))
    fixed = {(key.section, key.name) for section in sections() for key in section.keys if key.restart}
    needs_restart = tuple(key for key in different if tuple(key.split(".", 1)) in fixed)
    return Reloaded(
        _with_fixed(reading.settings, current, needs_restart),
        changed=tuple(key for key in different if key not in needs_restart),
        needs_restart=needs_restart,
        origins=reading.origins,
    )


def _differences(old: Settings, new: Settings) -> Iterator[str]:
    """`service.grace`, and `tables` for whatever differs among the overrides."""
    for name, described in Settings.model_fields.items():
        before, after = getattr(old, name), getattr(new, name)
        if model_of(described.annotation) is None or not isinstance(before, BaseModel):
            if before != after or [given.model_fields_set for given in before] != [
                given.model_fields_set for given in after
            ]:
                yield name
            continue
        yield from (f"{name}.{key}" for key in type(before).model_fields if getattr(before, key) != getattr(after, key))


def _with_fixed(new: Settings, old: Settings, keys: tuple[str, ...]) -> Settings:
    for key in keys:
        section, _, name = key.partition(".")
        value = getattr(getattr(old, section), name)
        new = new.model_copy(update={section: getattr(new, section).model_copy(update={name: value})})
    return new
