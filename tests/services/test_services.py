"""The list of services and the contract of one: a service is a folder and a line, and goes with both."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import grimp
import pytest

from lakeward.cli.verbs import PANELS
from lakeward.config.reference import sections
from lakeward.config.settings import TableSettings
from lakeward.services.services import SERVICES, load_sections, load_services, merging_service
from lakeward.services.verb import Verb

GONE = tuple(line for line in SERVICES if line.kind is not merging_service().kind)
"""Any service may go but the one that plans for each file group: its keys are the table's own, and its decisions are
what the page shows."""

_EACH = """
import os, sys
from importlib import import_module

for library in ("apscheduler", "jinja2", "numpy", "prometheus_client", "pyarrow", "pydantic", "sqlalchemy"):
    import_module(library)  # once for all
for case in sys.argv[1:]:
    if not os.fork():
        import_module("tests.services.without").check(case)
        os._exit(0)
    if os.wait()[1]:
        print("FAILED:", case)
"""


@pytest.mark.slow
@pytest.mark.turns(30)
def test_the_rest_starts_without_a_service_and_with_another() -> None:
    """Each folder is gone with its line, and archive gives way to a toy: daemon, page, metrics and configuration load,
    plans and jobs know no such kind, and help lists no verb of it; of the toy they have all that its folder has."""
    cases = [*(line.folder for line in GONE), "toy"]
    done = subprocess.run([sys.executable, "-c", _EACH, *cases], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("", 0), done.stdout + done.stderr


@pytest.fixture(scope="module")
def imports() -> grimp.ImportGraph:
    return grimp.build_graph("lakeward", exclude_type_checking_imports=True)


@pytest.mark.parametrize("folder", [line.folder for line in GONE])
def test_only_what_names_a_service_reaches_it(imports: grimp.ImportGraph, folder: str) -> None:
    """A verb goes with each service that it is made of, and names these; the daemon, the configuration and the frame of
    verbs reach none."""
    place = f"lakeward.services.{folder}"
    inside = imports.find_descendants(place) | {place}
    named = {f"lakeward.cli.{verb.place.partition(':')[0]}": folder in verb.of for verb in verbs()}
    for root in ("lakeward.cli.main", "lakeward.daemon.app", "lakeward.daemon.history.rebuild", "lakeward.config.file"):
        named[root] = False
    for root, is_named in named.items():
        assert bool(inside & imports.find_upstream_modules(root)) == is_named, (root, folder)


def verbs() -> Iterator[Verb]:
    """All that do something, with the services that the groups they are in name."""

    def below(verb: Verb) -> Iterator[Verb]:
        if verb.place:
            yield verb
        for inner in verb.verbs:
            yield from below(replace(inner, of=(*verb.of, *inner.of)))

    for panel in PANELS.values():
        for verb in panel:
            yield from below(verb)


def test_every_line_is_a_service() -> None:
    """What the list says of a service is what the service says, and each kind of job belongs to one."""
    loaded = {service.kind: service for service in load_services()}
    assert loaded.keys() == {line.kind for line in SERVICES if line.kind}
    kinds = [kind for service in loaded.values() for kind in service.jobs]
    assert len(kinds) == len(set(kinds))
    assert load_sections().keys() == {line.kind for line in SERVICES if line.has_section}
    assert {f"defaults.{name}" for name in load_sections()} <= {section.name for section in sections()}
    assert TableSettings().sections().keys() == load_sections().keys()
