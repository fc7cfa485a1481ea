"""What a daemon that services a table gives Prometheus, held against what is documented."""

from __future__ import annotations

import gzip
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from lakeward.daemon.metrics.specs import EVENT_METRICS, TABLE_GAUGES
from lakeward.services.metric import MetricKind
from tests.daemon.scrape import compare, samples, value
from tests.daemon.test_app import Daemon
from tests.golden_tables import copy_golden

QUIET = {
    "lakeward_conflicts_total",
    "lakeward_writer_conflicts_total",
    "lakeward_lock_held_beside_writes_seconds_total",
    "lakeward_recoveries_total",
    "lakeward_metadata_services_total",
    "lakeward_watchdog_firings_total",
    "lakeward_spark_session_restarts_total",
    "lakeward_config_reloads_total",
    "lakeward_deleted_files_total",
    "lakeward_deleted_bytes_total",
    "lakeward_rolled_back_writes_total",
    "lakeward_quarantine_capped_total",
    "lakeward_archived_instants_total",
    "lakeward_clustered_file_groups_total",
    "lakeward_clusterings_given_up_total",
    "lakeward_ttl_deleted_partitions_total",
    "lakeward_indexed_commits_total",
    "lakeward_store_errors_total",
    "lakeward_copied_row_groups_total",
    "lakeward_compared_core_seconds_total",
    "lakeward_compared_bytes_total",
}
"""They stay at 0 in a good run, in which nothing is old enough to be cleaned, no day ends, and whose base file is not
sorted."""


class Collector:
    """Takes traces over HTTP, as OpenTelemetry's collector does."""

    def __init__(self) -> None:
        self.spans: list[str] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                    collector.spans += [span.name for scope in resource.scope_spans for span in scope.spans]
                self.send_response(200)
                self.end_headers()

            def log_message(self, *arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Collector:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.mark.slow
def test_a_real_run_emits_what_is_documented_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Page and scrape agree both ways after a compaction, and every kind of figure has moved that a good run moves."""
    (tmp_path / "tables").mkdir()
    copy_golden("v9", tmp_path / "tables/orders")
    name = "orders"
    with Collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.address)
        daemon = Daemon(tmp_path)
        try:
            daemon.wait_for('"end": "committed"')
            daemon.wait_until("/metrics", f'lakeward_table_log_files{{table="{name}"}} 0.0')
            text = daemon.get("/metrics")[1]
            assert daemon.end() == 0
        finally:
            daemon.close()
    assert {"compaction", "merge", "commit", "lock_hold"} <= set(collector.spans), "each job is a trace"

    comparison = compare(text)
    assert comparison.undocumented == frozenset()
    assert comparison.missing == frozenset()
    assert comparison.wrong == ()
    found = samples(text)
    moved = {
        spec.name
        for spec in EVENT_METRICS
        if any(
            number for _, number in found.get(spec.name + ("_count" if spec.kind is MetricKind.HISTOGRAM else ""), [])
        )
    }
    assert {spec.name for spec in EVENT_METRICS} - moved <= QUIET
    silent = comparison.silent & {gauge.spec.name for gauge in TABLE_GAUGES}
    assert silent <= {
        "lakeward_table_write_amplification_ratio",
        "lakeward_table_findings",
        "lakeward_table_metadata_delta_commits",
        "lakeward_table_consumer_behind_seconds",
        "lakeward_table_ttl_expired_partitions",
        "lakeward_table_ttl_noticed_partitions",
        "lakeward_table_index_wrong_keys",
        "lakeward_table_index_out_of_use",
        "lakeward_table_index_checked_timestamp_seconds",
        "lakeward_table_index_behind_commits",
        "lakeward_table_index_behind_bytes",
        "lakeward_table_index_behind_seconds",
        "lakeward_table_index_unreadable",
        "lakeward_table_index_coverage_ratio",
        "lakeward_table_index_coverage_bytes",
        "lakeward_table_index_shadow_compared_keys",
        "lakeward_table_index_shadow_wrong_keys",
        "lakeward_table_index_shadow_clean_commits",
        "lakeward_table_index_shadow_behind_commits",
        "lakeward_table_index_build_file_groups",
        "lakeward_table_index_build_read_file_groups",
        "lakeward_table_index_build_progress_timestamp_seconds",
        "lakeward_table_index_load_ratio",
        "lakeward_table_index_fullest_bucket_ratio",
        "lakeward_table_doubled_keys",
    }, "no writer wrote while it watched, it has no metadata table, and no consumer is configured"
    assert value(text, "lakeward_leader") == value(text, "lakeward_ready") == 1
    assert value(text, "lakeward_verifications_total", table=name, check="operation", result="mismatch") == 0


@pytest.mark.slow
def test_no_label_of_a_run_holds_what_has_no_bound(tmp_path: Path):
    """Labels hold no file id and no instant, and of paths only those that are a table's name."""
    (tmp_path / "tables").mkdir()
    copy_golden("v9", tmp_path / "tables/orders")
    daemon = Daemon(tmp_path)
    try:
        daemon.wait_for('"end": "committed"')
        daemon.wait_until("/metrics", "lakeward_table_failures{")
        text = daemon.get("/metrics")[1]
    finally:
        daemon.close()

    contents = {
        content
        for name, found in samples(text).items()
        if name.startswith("lakeward_")
        for labels, _ in found
        for label, content in labels.items()
        if label not in ("table", "le", "version", "python")
    }
    assert all(re.fullmatch(r"[A-Za-z_-]+", content) for content in contents)
    assert {labels["table"] for labels, _ in samples(text)["lakeward_table_failures"]} == {"orders"}
