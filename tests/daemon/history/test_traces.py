from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from lakeward.daemon.app import App
from lakeward.daemon.history.traces import JobTraces, provider_of
from lakeward.daemon.status import PhaseSpan
from lakeward.protocol.progress import Phase
from tests.daemon.synthetic_status import NOW, job


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def traces(exporter: InMemorySpanExporter) -> JobTraces:
    return JobTraces(provider_of(SimpleSpanProcessor(exporter), {}, holder="here-1", version="0.1"))


def parents(spans: tuple[ReadableSpan, ...]) -> dict[str, str | None]:
    names = {span.context.span_id: span.name for span in spans}
    return {span.name: None if span.parent is None else names[span.parent.span_id] for span in spans}


def test_a_phase_is_a_child_of_the_narrowest_that_it_lay_in(traces: JobTraces, exporter: InMemorySpanExporter):
    """A commit holds the lock, and looks at the table meanwhile; the merge before is beside it (Keeps of
    daemon/history/traces)."""
    phases = (
        PhaseSpan(Phase.MERGE, NOW - 195, NOW - 180),
        PhaseSpan(Phase.LOCK_WAIT, NOW - 179, NOW - 178),
        PhaseSpan(Phase.SCAN, NOW - 177, NOW - 176),
        PhaseSpan(Phase.LOCK_HOLD, NOW - 178, NOW - 172),
        PhaseSpan(Phase.COMMIT, NOW - 179, NOW - 171),
    )
    traces.job_ended(job(), phases)

    spans = exporter.get_finished_spans()
    assert parents(spans) == {
        "compaction": None,
        "merge": "compaction",
        "commit": "compaction",
        "lock_wait": "commit",
        "lock_hold": "commit",
        "look": "lock_hold",
    }
    (root,) = [span for span in spans if span.parent is None]
    assert (root.start_time, root.end_time) == (int((NOW - 200) * 1e9), int((NOW - 170) * 1e9))
    assert root.attributes["lakeward.table"] == "orders"
    assert root.resource.attributes["service.name"] == "lakeward"
    assert {span.name for span in spans if span.attributes.get("lakeward.waiting")} == {"lock_wait"}


def test_a_job_that_failed_is_an_error_that_says_why(traces: JobTraces, exporter: InMemorySpanExporter):
    traces.job_ended(job(result="failed", error="The disk is full."), ())
    traces.job_ended(job(result="nothing"), ())

    failed, well = exporter.get_finished_spans()
    assert (failed.status.status_code, failed.status.description) == (StatusCode.ERROR, "The disk is full.")
    assert well.status.status_code is StatusCode.UNSET


def test_the_environment_names_the_service(exporter: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch):
    """The variable is OpenTelemetry's own."""
    monkeypatch.setenv("OTEL_SERVICE_NAME", "tables-of-sales")
    provider = provider_of(SimpleSpanProcessor(exporter), os.environ, holder="here-1", version="0.1")
    JobTraces(provider).job_ended(job(table="half\udce4"), ())

    (span,) = exporter.get_finished_spans()
    assert span.resource.attributes["service.name"] == "tables-of-sales"
    assert span.attributes["lakeward.table"] == "half\\udce4"


def test_a_daemon_without_the_extra_runs_and_says_that_no_traces_are_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A cluster may set the variable for all of its containers."""
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "LAKEWARD_SERVICE__STATE_FOLDER": str(tmp_path)}
    (tmp_path / "tables").mkdir()
    app = App(None, environ=environ, overrides={"discovery.roots": f'["{tmp_path}/tables"]'})
    monkeypatch.setitem(sys.modules, "lakeward.daemon.history.traces", None)
    with ExitStack() as ending:
        app._setup(ending, serve=False)
        (found,) = [each for each in app._current_status().limitations if "trace" in each.what]
    assert "lakeward[traces]" in found.remedy
