"""Lakeward without one of its services, or with a toy in place of one; for a process of its own.

The toy is what docs/inside/adding.md says of a service, as the files of one folder.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

TOY: Mapping[str, str] = {
    "__init__.py": "",
    "settings.py": """
from lakeward.protocol.section import Count, SettingsSection

class ToySettings(SettingsSection):
    \"\"\"How files are counted.\"\"\"

    after: Count = 3
    \"\"\"So many files are enough.\"\"\"

SECTION = ToySettings
""",
    "metrics.py": """
from lakeward.services.metric import JobCounter, MemoryGauge, counter, gauge

METRICS = (
    MemoryGauge(gauge("lakeward_table_toy_files", "Files counted.", "table"), lambda memory, demand, now: len(memory)),
    JobCounter(counter("lakeward_toy_files_total", "Files.", "table"), lambda figures: figures.files_deleted),
)
""",
    "verbs.py": """
from lakeward.services.verb import Verb

VERBS = (Verb("toy", "toy_command:toy", help="Count files.", panel="Service a table"),)
""",
    "page.html": "<section>{{ memory|length }} counts of the toy</section>",
    "job.py": """
from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.job_report import JobFigures, JobReport, JobResult
from lakeward.protocol.refusals.eligibility import TableService
from lakeward.services.service import Fact, JobTraits, Service, ServiceDemand
from lakeward.services.toy.metrics import METRICS
from lakeward.services.toy.settings import ToySettings

class ToyService(Service[int]):
    kind = JobKind.ARCHIVE
    permission = TableService.ARCHIVING
    jobs = {JobKind.ARCHIVE: JobTraits(rank=1)}
    metrics = METRICS

    def rules(self, table):
        return table.section(ToySettings).after

    def new_memory(self):
        return []

    def demand(self, facts, care):
        files = sum(1 for slice_ in facts.snapshot.latest_slices if slice_.base_file is not None)
        care.memory.append(files)
        return {self.kind: ServiceDemand(files >= care.rules, f"{files} files", files)}

    def run(self, table, care, order):
        return JobReport(JobResult.COMMITTED, JobFigures(files_deleted=0))

    def shown(self, memory):
        return [Fact("Files counted", str(memory[-1]))] if memory else []

SERVICE = ToyService()
""",
}


class _Gone:
    def __init__(self, folder: str) -> None:
        self._place = f"lakeward.services.{folder}"

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == self._place or name.startswith(f"{self._place}."):
            raise ModuleNotFoundError(f"{name} was taken away")


def check(case: str) -> None:
    """Raises where the rest does not start without the service of that folder, or with the toy."""
    gone = "archive" if case == "toy" else case
    finder: Any = _Gone(gone)
    sys.meta_path.insert(0, finder)
    services: Any = importlib.import_module("lakeward.services.services")
    services.SERVICES = tuple(line for line in services.SERVICES if line.folder != gone)
    with tempfile.TemporaryDirectory() as folder:
        if case == "toy":
            _add_toy(services, Path(folder))
        services.NAMED = tuple(line.kind for line in services.SERVICES if line.kind and line.is_named)
        _check_rest(services, gone, Path(folder), with_toy=case == "toy")


def _add_toy(services: Any, folder: Path) -> None:
    (folder / "toy").mkdir()
    for name, text in TOY.items():
        (folder / "toy" / name).write_text(text)
    importlib.import_module("lakeward.services").__path__.append(str(folder))
    from lakeward.protocol.job_kind import JobKind

    services.SERVICES = (*services.SERVICES, services.ServiceLine("toy", JobKind.ARCHIVE, has_section=True))


def _check_rest(services: Any, gone: str, folder: Path, *, with_toy: bool) -> None:
    import lakeward.daemon.app
    from lakeward.cli.main import run
    from lakeward.cli.verbs import PANELS
    from lakeward.config.file import load_settings
    from lakeward.daemon.metrics.specs import METRICS
    from lakeward.daemon.scheduling.job_traits import TRAITS
    from lakeward.daemon.web.pages import GroupQuery, Pages
    from lakeward.daemon.work.worker import _SERVICES
    from lakeward.protocol.job_kind import JobKind

    assert lakeward.daemon.app
    config = folder / "lakeward.toml"
    config.write_text('[discovery]\nroots = ["/lake"]\n' + ("[defaults.archive]\nafter = 5\n" if with_toy else ""))
    settings = load_settings(config, {}).defaults
    assert set(settings.services) == {kind.value for kind in services.NAMED}
    assert TRAITS.keys() == _SERVICES.keys() == {kind for each in services.load_services() for kind in each.jobs}
    assert not any(name.startswith(f"lakeward.services.{gone}.") for name in sys.modules)
    listed = [verb for panel in PANELS.values() for verb in panel]
    assert listed and not any(gone in verb.of for verb in listed)
    with contextlib.redirect_stdout(io.StringIO()) as text:
        assert run(["--help"]) == 0
    assert "Usage: lakeward" in text.getvalue()
    if not with_toy:
        Pages()
        return
    from tests.daemon.synthetic_status import detail, table

    (toy,) = (service for service in services.load_services() if service.kind is JobKind.ARCHIVE)
    assert toy.rules(settings) == 5 and "Count files." in text.getvalue()
    assert {"lakeward_table_toy_files", "lakeward_toy_files_total"} <= {spec.name for spec in METRICS}
    page = Pages().one_table(detail(table(remembered={JobKind.ARCHIVE: [4, 7]})), GroupQuery())
    assert "2 counts of the toy" in page and toy.shown([4, 7])[0].value == "7"
