"""Each job that ended as a trace of OpenTelemetry: a span of the job, and below it one for each of its phases.

    job ended --JobTraces.job_ended--> spans --batches, on a thread of the library--> OTLP over HTTP --> collector

The daemon imports this where the environment names a collector; that variable and others are OpenTelemetry's own. A
collector that does not answer costs no job anything: spans that find no room in the library's queue are dropped, and
the library logs that.

Touches: the network, by the library.
Keeps:   a phase is the child of the narrowest phase that it lay in, else of the job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Status, StatusCode, set_span_in_context

from lakeward.base.printable import printable
from lakeward.daemon.status import GOOD_ENDS, PhaseSpan
from lakeward.protocol.progress import WAITING_PHASES
from lakeward.state.records import JobRecord

_NANOSECONDS = 1_000_000_000
_STOP_MILLISECONDS = 2_000


class JobTraces:
    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("lakeward")

    def job_ended(self, job: JobRecord, phases: Sequence[PhaseSpan]) -> None:
        """Called for each job that ended, with its newest phases."""
        assert job.ended_at is not None and job.result is not None, "only ended jobs are traced"
        given = {
            "lakeward.job": job.id,
            "lakeward.table": printable(job.table),
            "lakeward.service": job.service,
            "lakeward.end": job.result,
            "lakeward.instant": job.instant or "",
        }
        root = self._tracer.start_span(job.service, start_time=_nanoseconds(job.began_at), attributes=given)
        if job.result not in GOOD_ENDS:
            root.set_status(Status(StatusCode.ERROR, job.error or job.result))
        # The outer ones first; of those that are open, the last one is the narrowest.
        open_spans = [(job.ended_at, root)]
        for each in sorted(phases, key=lambda phase: (phase.began_at, -phase.ended_at)):
            while len(open_spans) > 1 and open_spans[-1][0] < each.ended_at:
                open_spans.pop()
            span = self._tracer.start_span(
                each.phase.value,
                set_span_in_context(open_spans[-1][1]),
                start_time=_nanoseconds(each.began_at),
                attributes={"lakeward.waiting": each.phase in WAITING_PHASES},
            )
            span.end(_nanoseconds(each.ended_at))
            open_spans.append((each.ended_at, span))
        root.end(_nanoseconds(job.ended_at))

    def stop(self) -> None:
        """Send what waits, for two seconds at most."""
        with suppress(Exception):  # the daemon ends, and a collector that does not answer must not hold it
            self._provider.force_flush(_STOP_MILLISECONDS)
        self._provider.shutdown()


def open_traces(environ: Mapping[str, str], *, holder: str, version: str) -> JobTraces:
    """Traces to the collector that the environment names.

    Args:
        holder: the name of this daemon among those that share a store.
    """
    return JobTraces(provider_of(BatchSpanProcessor(OTLPSpanExporter()), environ, holder=holder, version=version))


def provider_of(processor: SpanProcessor, environ: Mapping[str, str], *, holder: str, version: str) -> TracerProvider:
    """A provider beside any that the process has."""
    given = {"service.instance.id": holder, "service.version": version}
    if not environ.get("OTEL_SERVICE_NAME"):
        given["service.name"] = "lakeward"
    provider = TracerProvider(resource=Resource.create(given), shutdown_on_exit=False)
    provider.add_span_processor(processor)
    return provider


def _nanoseconds(seconds: float) -> int:
    return int(seconds * _NANOSECONDS)
