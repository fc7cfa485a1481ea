"""The table services that there are: a line for each, its folder and what it is called.

A line loads nothing: commands read the configuration, and need no more of a service than its section.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.section import SettingsSection
from lakeward.protocol.service import Service


@dataclass(frozen=True, slots=True)
class ServiceLine:
    """A service before it is loaded: `job.py` in its folder has it as `SERVICE`."""

    folder: str
    kind: JobKind
    """Its name under `services` of a table, and that of its section of the configuration."""
    has_section: bool = False
    """`settings.py` in its folder has it as `SECTION`."""


SERVICES = (
    ServiceLine("rollback", JobKind.ROLLBACK, has_section=True),
    ServiceLine("compaction", JobKind.COMPACTION),
    ServiceLine("indexing", JobKind.INDEX, has_section=True),
    ServiceLine("clean", JobKind.CLEAN, has_section=True),
    ServiceLine("archive", JobKind.ARCHIVE, has_section=True),
    ServiceLine("verification", JobKind.VERIFICATION),
)
"""In the order in which a table gets them."""


_ON_THE_CONTRACT = (JobKind.ROLLBACK, JobKind.CLEAN, JobKind.ARCHIVE)


@cache
def load_services() -> tuple[Service[Any], ...]:
    return tuple(
        import_module(f"{__package__}.{line.folder}.job").SERVICE for line in SERVICES if line.kind in _ON_THE_CONTRACT
    )


@cache
def load_sections() -> Mapping[str, type[SettingsSection]]:
    """The sections of services, by their names."""
    with_section = (line for line in SERVICES if line.has_section)
    return {line.kind.value: import_module(f"{__package__}.{line.folder}.settings").SECTION for line in with_section}
