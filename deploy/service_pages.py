"""Write the last three headings of each page in docs/services/: settings, metrics and alerts, what can go wrong.

    python -m deploy.service_pages

Settings come from the models of the configuration, metrics from their declarations, alerts from the rules for
Prometheus, refusals from their rows, and errors from what the service's room raises. What is written by hand below one
of these headings stays.

Touches: those pages.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from lakeward.base import errors
from lakeward.config.reference import Key, sections
from lakeward.daemon.metrics.specs import METRICS
from lakeward.protocol.refusals.eligibility import ROWS, TableService
from lakeward.services.metric import MetricSpec

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "services"
CODE = ROOT / "service" / "lakeward"
RULES = ROOT / "deploy" / "prometheus" / "rules" / "lakeward.yml"

HEADINGS = ("What it does", "When", "Command", "Settings", "Metrics and alerts", "What can go wrong")
BEGIN, END = "<!-- made by `make service-pages`: begin -->", "<!-- made by `make service-pages`: end -->"
ATTEMPT_ROOMS = ("protocol/attempts", "protocol/lock", "protocol/transition.py", "protocol/life_cycle.py")
"""The modules that raise the errors of every attempt."""
SERVICE_LABELS = frozenset({"lakeward_jobs_total", "lakeward_table_service_refused"})
"""Metrics of all services, of which a page has the alerts that name its job."""


@dataclass(frozen=True, slots=True)
class ServicePage:
    refused_as: TableService
    room: str
    """Below service/lakeward: where the service's errors are raised."""
    settings: tuple[str, ...] = ()
    """Sections, and keys of sections."""
    metrics: str = ""
    """A pattern of names, without `lakeward_`."""
    jobs: tuple[str, ...] = ()
    """What the label `service` of general metrics has for its jobs."""
    is_attempt: bool = True
    """It writes to the table by an attempt."""
    files: tuple[str, ...] = ()
    """Other modules that raise errors of the service."""


def _of_tables(*names: str) -> tuple[str, ...]:
    return tuple(f"defaults.{name}" for name in names)


PAGES = {
    "archive": ServicePage(
        TableService.ARCHIVING,
        "services/archive",
        ("defaults.archive",),
        r"table_timeline_instants|table_overdue_archive_instants|archived_instants_total",
        ("archive",),
    ),
    "clean": ServicePage(
        TableService.CLEANING,
        "services/clean",
        ("defaults.clean",),
        r"table_(storage|overdue_clean|quarantined)_bytes|table_oldest_pending_clean.*|table_consumer.*|table_space.*"
        r"|deleted_.*|quarantine_.*",
        ("clean",),
    ),
    "clustering": ServicePage(
        TableService.CLUSTERING,
        "services/clustering",
        ("defaults.clustering",),
        r"table_small_file_groups|table_clustering_.*|cluster.*_total",
        ("clustering",),
    ),
    "compaction": ServicePage(
        TableService.COMPACTION,
        "services/compaction",
        _of_tables("type", "planner", "objective", "windows", "partitions", "exclude_partitions", "codec", "memory")
        + _of_tables("foreign_services")
        + ("locks.writers_conflict",),
        r"table_(log|superseded_log)_(files|bytes)|table_most_.*|table_(read|write)_amplification.*|table_oldest_unmerged.*"
        r"|table_objective.*|table_pending_plans|table_oldest_pending_plan.*|table_parked_file_groups|decisions_total"
        r"|operations_total|merges_total|job_merged.*|job_rows_total|conflicts_total|writer_conflicts_total"
        r"|recoveries_total|table_damaged_files",
        ("compaction",),
    ),
    "indexing": ServicePage(
        TableService.INDEXING,
        "services/indexing",
        ("defaults.index",),
        r"table_index_.*|indexed_commits.*",
        ("index",),
        is_attempt=False,
    ),
    "metadata": ServicePage(
        TableService.METADATA,
        "services/metadata",
        ("defaults.metadata_compact_after",),
        r"table_metadata_delta_commits|metadata_services_total",
        ("metadata-clean", "metadata-compaction"),
        files=("format/metadata/base_file.py",),
    ),
    "restore": ServicePage(
        TableService.RESTORE, "services/together/restore", (), r"table_begun_services|table_oldest_begun_service.*"
    ),
    "rollback": ServicePage(
        TableService.ROLLBACK,
        "services/rollback",
        ("defaults.rollback",),
        r"table_failed_writes|rolled_back_writes_total|table_begun_services|table_oldest_begun_service.*",
        ("rollback",),
    ),
    "savepoint": ServicePage(
        TableService.SAVEPOINT, "services/savepoint", (), r"table_oldest_savepoint.*|table_pinned_bytes"
    ),
    "ttl": ServicePage(
        TableService.WRITING,
        "services/ttl",
        ("defaults.ttl",),
        r"table_ttl_.*|ttl_.*_total",
        ("ttl",),
    ),
    "verification": ServicePage(
        TableService.VERIFICATION,
        "services/verification",
        _of_tables("verify"),
        r"verifications_total|table_damaged_files",
        ("verification",),
        is_attempt=False,
    ),
    "versions": ServicePage(TableService.UPGRADING, "services/together/versions"),
}


def document(name: str, text: str) -> str:
    """The page with what is made as it is now."""
    page = PAGES[name]
    made = {
        "Settings": settings_of(page),
        "Metrics and alerts": metrics_of(page),
        "What can go wrong": dangers_of(page),
    }
    for heading, content in made.items():
        marked = re.compile(rf"(?<=^## {heading}\n\n{BEGIN}\n).*?(?=^{END}$)", re.MULTILINE | re.DOTALL)
        text, count = marked.subn(lambda _, content=content: f"\n{content}\n\n", text)  # type: ignore[misc]
        assert count == 1, f"{name}.md has no marks under {heading}"
    return text


def settings_of(page: ServicePage) -> str:
    keys = [key for name in page.settings for key in _keys(name)]
    if not keys:
        return "None of its own."
    rows = [f"| `{_path(key)}` | {_shown(key.default)} | {_first(key.description)} |" for key in keys]
    return "\n".join(
        [
            "The [reference](../reference/configuration.md) explains them. An entry `[[tables]]` overrides those",
            "under `defaults` for some tables.",
            "",
            "| key | default | |",
            "|---|---|---|",
            *rows,
        ]
    )


def metrics_of(page: ServicePage) -> str:
    specs = [spec for spec in METRICS if re.fullmatch(f"lakeward_({page.metrics})", spec.name)]
    lines = ["| metric | labels | |", "|---|---|---|", *map(_metric, specs)] if specs else ["No metric of its own."]
    if page.jobs:
        jobs = " or ".join(f'`service="{job}"`' for job in page.jobs)
        sentence = f"`lakeward_jobs_total`, `lakeward_job_duration_seconds` and other metrics of jobs have {jobs}."
        lines += ["", *_wrapped(sentence)]
    rows = [
        f"| [{rule['alert']}](../{rule['annotations']['runbook'].removeprefix('docs/')}) "
        f"| {rule['labels']['severity']} | {rule['annotations']['summary']} |"
        for rule in _rules()
        if _is_about(rule["expr"], page, {spec.name for spec in specs})
    ]
    lines += ["", "| alert, with its runbook | severity | |", "|---|---|---|", *rows] if rows else ["", "No alert."]
    return "\n".join(lines)


def dangers_of(page: ServicePage) -> str:
    rooms = (page.room, *page.files, *(ATTEMPT_ROOMS if page.is_attempt else ()))
    ids = sorted({row.id for row in ROWS if page.refused_as in row.stops})
    rows = [
        f"| `{error.code}` | {error.exit_code} | {_first((error.__doc__ or '').replace(chr(10), ' '))} |"
        for error in sorted(_errors_below(rooms), key=lambda error: (error.exit_code, error.code))
    ]
    return "\n".join(
        [
            "A table is refused, with exit code 2 and nothing written, for what has one of these ids in [the",
            "matrix](../reference/compatibility.md#what-stops-which-service), which says why, and what helps:",
            *_wrapped(", ".join(f"`{row_id}`" for row_id in ids) + "."),
            "",
            "| error | exit code | |",
            "|---|---|---|",
            *rows,
            "",
            "All exit codes are [on one page](../reference/exit-codes.md).",
        ]
    )


def _keys(name: str) -> list[Key]:
    keys = [
        key
        for section in sections()
        for key in section.keys
        if section.name == name or section.name.startswith(f"{name}.") or f"{section.name}.{key.name}" == name
    ]
    assert keys, f"no setting is called {name}"
    return keys


def _path(key: Key) -> str:
    return f"{key.section}.{key.name}"


def _shown(default: str | None) -> str:
    return "" if default is None else f"`{default}`"


def _first(text: str) -> str:
    """The first sentence."""
    return re.split(r"(?<=[.:])\s+(?=[A-Z`])", re.sub(r"\s+", " ", text.strip()), maxsplit=1)[0].removesuffix(":")


def _metric(spec: MetricSpec) -> str:
    return f"| `{spec.name}` | {', '.join(f'`{label}`' for label in spec.labels)} | {_first(spec.help)} |"


def _wrapped(text: str) -> Iterator[str]:
    yield from textwrap.wrap(text, 120, break_long_words=False, break_on_hyphens=False)


@cache
def _rules() -> tuple[dict[str, Any], ...]:
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return tuple(rule for group in groups for rule in group["rules"] if "alert" in rule)


def _is_about(expression: str, page: ServicePage, names: Iterable[str]) -> bool:
    """Whether an alert watches a metric of the page, or a metric of all services for this one."""
    watched = set(re.findall(r"lakeward_\w+", expression))
    if watched & SERVICE_LABELS:
        labels = re.findall(r'service=~?"([\w|-]+)"', expression)
        return not labels or any(job in label.split("|") for label in labels for job in page.jobs)
    if action := re.search(r'action="(\w+)"', expression):
        return bool(watched & set(names)) and action[1] == page.refused_as.value
    return bool(watched & set(names))


def _errors_below(rooms: Iterable[str]) -> set[type[errors.LakewardError]]:
    """The errors that the modules of these rooms make."""
    paths = [path for room in rooms for path in ((CODE / room).rglob("*.py") if "." not in room else [CODE / room])]
    made = {
        node.func.id
        for path in paths
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    found = {getattr(errors, name, None) for name in made}
    return {error for error in found if isinstance(error, type) and issubclass(error, errors.LakewardError)}


def main() -> None:
    for name in PAGES:
        path = FOLDER / f"{name}.md"
        path.write_text(document(name, path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
