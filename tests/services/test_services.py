"""The list of services and the contract of one: a service is a folder and a line, and goes with both."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

from lakeward.config.reference import sections
from lakeward.config.settings import TableSettings
from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.job_report import JobFigures, JobReport, JobResult
from lakeward.protocol.refusals.eligibility import TableService
from lakeward.protocol.section import Count, SettingsSection
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.service import Care, Fact, JobOrder, JobTraits, Service, ServiceDemand, TableFacts, TableRules
from lakeward.services.services import SERVICES, ServiceLine, load_sections, load_services

MAY_GO = ("archive", "metadata", "verification", "indexing", "clean")
"""What others stand on stays: a write rolls back, and a plan is a compaction's."""

_WITHOUT = """
import sys
from pathlib import Path

gone, config = sys.argv[1:]


class Gone:
    def find_spec(self, name, path=None, target=None):
        place = f"lakeward.services.{gone}"
        if name == place or name.startswith(f"{place}."):
            raise ModuleNotFoundError(f"{name} was taken away")


sys.meta_path.insert(0, Gone())
from lakeward.services import services

services.SERVICES = tuple(line for line in services.SERVICES if line.folder != gone)
services.NAMED = tuple(line.kind for line in services.SERVICES if line.is_named)
import lakeward.daemon.app
import lakeward.daemon.web.pages
from lakeward.cli.main import main
from lakeward.config.file import load_settings
from lakeward.daemon.scheduling.job_traits import TRAITS
from lakeward.daemon.work.worker import _SERVICES

assert gone not in load_settings(Path(config), {}).defaults.services
assert TRAITS.keys() == _SERVICES.keys()
assert not any(name.startswith(f"lakeward.services.{gone}") for name in sys.modules)
sys.argv = ["lakeward", "--help"]
main()
"""


@pytest.mark.parametrize("folder", MAY_GO)
def test_the_rest_starts_without_a_service(folder: str, tmp_path: Path) -> None:
    """Its folder and its line are gone: daemon, page and configuration load, plans and jobs know no such kind, and help
    is printed."""
    config = tmp_path / "lakeward.toml"
    config.write_text('[discovery]\nroots = ["/lake"]\n')
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT, folder, str(config)], capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr and done.returncode == 0, done.stderr
    assert "Usage: lakeward" in done.stdout


def test_every_line_is_a_service() -> None:
    """What the list says of a service is what the service says, and each kind of job belongs to one."""
    loaded = {service.kind: service for service in load_services()}
    assert loaded.keys() == {line.kind for line in SERVICES}
    kinds = [kind for service in loaded.values() for kind in service.jobs]
    assert len(kinds) == len(set(kinds))
    assert load_sections().keys() == {line.kind.value for line in SERVICES if line.has_section}
    assert {f"defaults.{name}" for name in load_sections()} <= {section.name for section in sections()}
    assert TableSettings().sections().keys() == load_sections().keys()


class ToySettings(SettingsSection):
    """How files are counted."""

    after: Count = 3
    """So many files are enough."""


class ToyService:
    """The whole of a service: what docs/inside/adding.md says that it has."""

    kind = JobKind.ARCHIVE
    permission = TableService.ARCHIVING
    jobs: Final = {JobKind.ARCHIVE: JobTraits(rank=1)}

    def rules(self, table: TableRules) -> int:
        return table.section(ToySettings).after

    def new_memory(self) -> list[int]:
        return []

    def demand(self, facts: TableFacts, care: Care[int]) -> Mapping[JobKind, ServiceDemand]:
        files = sum(1 for slice_ in facts.snapshot.latest_slices if slice_.base_file is not None)
        care.memory.append(files)
        return {self.kind: ServiceDemand(files >= care.rules, f"{files} files", files)}

    def run(self, table: ServicedTable, care: Care[int], order: JobOrder) -> JobReport:
        return JobReport(JobResult.COMMITTED, JobFigures(files_deleted=0))

    def shown(self, memory: list[int]) -> Sequence[Fact]:
        return [Fact("Files counted", str(memory[-1]))] if memory else []


def test_a_service_is_a_folder_and_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """`settings.py` with its section and `job.py` with the service are loaded by its line, and nothing else is."""
    place = "lakeward.services.toy"
    for name, found in (("settings", {"SECTION": ToySettings}), ("job", {"SERVICE": ToyService()})):
        module = ModuleType(f"{place}.{name}")
        vars(module).update(found)
        monkeypatch.setitem(sys.modules, f"{place}.{name}", module)
    monkeypatch.setitem(sys.modules, place, ModuleType(place))
    line = ServiceLine("toy", JobKind.ARCHIVE, has_section=True)
    monkeypatch.setattr("lakeward.services.services.SERVICES", (line,))

    (service,) = load_services.__wrapped__()
    (name, section), *others = load_sections.__wrapped__().items()

    checked: Service[int] = ToyService()
    assert type(service) is type(checked) and (name, section, others) == ("archive", ToySettings, [])
    assert service.shown(service.new_memory()) == [] and service.shown([4]) == [Fact("Files counted", "4")]
