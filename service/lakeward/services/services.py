"""The table services that there are: a line for each, its folder and what it is called.

A line loads nothing: commands read the configuration, and need no more of a service than its section.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from itertools import dropwhile, islice, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from lakeward.protocol.job_kind import JobKind
from lakeward.services.verb import Verb

if TYPE_CHECKING:
    from lakeward.protocol.section import SettingsSection
    from lakeward.services.service import CountingService, MergingService, Service


@dataclass(frozen=True, slots=True)
class ServiceLine:
    """A service before it is loaded: `job.py` in its folder has it as `SERVICE`."""

    folder: str
    kind: JobKind | None = None
    """Its name under `services` of a table, and that of its section of the configuration; None where the daemon has no
    job of it."""
    is_named: bool = True
    """An operator names it; else it belongs to compaction."""
    is_of_round: bool = True
    """A table gets it in a round; else it comes by time, or by hand."""
    has_section: bool = False
    """`settings.py` in its folder has it as `SECTION`."""


SERVICES = (
    ServiceLine("rollback", JobKind.ROLLBACK, has_section=True),
    ServiceLine("compaction", JobKind.COMPACTION),
    ServiceLine("metadata", JobKind.METADATA_COMPACTION, is_named=False),
    ServiceLine("clustering", JobKind.CLUSTERING, has_section=True),
    ServiceLine("ttl", JobKind.TTL, has_section=True),
    ServiceLine("indexing", JobKind.INDEX, has_section=True),
    ServiceLine("clean", JobKind.CLEAN, has_section=True),
    ServiceLine("archive", JobKind.ARCHIVE, has_section=True),
    ServiceLine("verification", JobKind.VERIFICATION, is_of_round=False),
    ServiceLine("savepoint", is_of_round=False),
)
"""In the order in which a table gets them, after recovery: a failed write holds compaction, clustering and
cleaning back, a clustering takes slices that are compacted, both make those old that a clean deletes, an index reads
files before these go, and what a clean still needs is not archived."""

NAMED = tuple(line.kind for line in SERVICES if line.kind is not None and line.is_named)

ROUND = tuple(line.kind for line in SERVICES if line.kind is not None and line.is_named and line.is_of_round)
"""What the scheduler gives a table in a round, in this order, and what `lakeward service` does."""


@cache
def load_services() -> tuple[Service[Any], ...]:
    return tuple(import_module(f"{__package__}.{line.folder}.job").SERVICE for line in SERVICES if line.kind)


def load_doctor() -> Callable[..., Any]:
    """`together.doctor.catalogue.examine_table`, which is made of several services and loads them."""
    found: Callable[..., Any] = import_module(f"{__package__}.together.doctor.catalogue").examine_table
    return found


def belonging_to(kind: JobKind) -> Iterator[Service[Any]]:
    """The services behind that one on the list that have no name of their own: they are done with it, in this order."""
    lines = dropwhile(lambda line: line.kind is not kind, SERVICES)
    for line in takewhile(lambda line: not line.is_named, islice(lines, 1, None)):
        yield import_module(f"{__package__}.{line.folder}.job").SERVICE


def load_verbs() -> Iterator[Verb]:
    """The verbs that services declare, each with the folder that it is of."""
    for line in SERVICES:
        for verb in import_module(f"{__package__}.{line.folder}.verbs").VERBS:
            yield replace(verb, of=(line.folder, *verb.of))


def round_views() -> Mapping[JobKind, str]:
    """What shows a step of `lakeward service`, as `module:function`; a service without one is none of its steps."""
    modules = {line.kind: import_module(f"{__package__}.{line.folder}.verbs") for line in SERVICES if line.kind}
    return {kind: module.ROUND_VIEW for kind, module in modules.items() if hasattr(module, "ROUND_VIEW")}


def merging_service() -> MergingService:
    """The one that plans for each file group."""
    return cast("MergingService", next(service for service in load_services() if hasattr(service, "plan")))


def counting_service() -> CountingService | None:
    """The one that says what holds the storage; None where it was taken away."""
    return cast(
        "CountingService | None", next((service for service in load_services() if hasattr(service, "count")), None)
    )


def page_templates() -> Mapping[JobKind, Path]:
    """The sections of a table's page that services have."""
    folders = {line.kind: import_module(f"{__package__}.{line.folder}").__path__[0] for line in SERVICES if line.kind}
    found = {kind: Path(folder, "page.html") for kind, folder in folders.items()}
    return {kind: path for kind, path in found.items() if path.exists()}


@cache
def load_sections() -> Mapping[str, type[SettingsSection]]:
    """The sections of services, by their names."""
    with_section = (line for line in SERVICES if line.has_section)
    return {
        line.kind.value: import_module(f"{__package__}.{line.folder}.settings").SECTION
        for line in with_section
        if line.kind is not None
    }
