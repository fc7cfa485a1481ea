from __future__ import annotations

from deploy.metrics_page import AMORO, HUDI, PAGE, page, unknown_counterparts
from lakeward.daemon.metrics.specs import METRICS


def test_the_page_is_what_the_code_says():
    """docs/reference/metrics.md is generated; `make metrics-page` makes it again."""
    assert PAGE.read_text(encoding="utf-8") == page()


def test_every_metric_is_on_the_page_once_with_its_sentence():
    """The page is made of the same declarations that make the metrics."""
    rows = [line for line in page().splitlines() if line.startswith("| `lakeward_")]

    for spec in METRICS:
        described = [row for row in rows if row.startswith(f"| `{spec.name}` |")]
        assert len(described) == 1
        assert spec.help in described[0]


def test_the_names_that_operators_know_lead_to_names_that_exist():
    """Hudi's and Amoro's well-known figures have a counterpart each."""
    replaced = {name for each in (*HUDI, *AMORO) for name in each.replaced}

    assert unknown_counterparts() == set()
    assert {"compaction.duration", "totalLogFilesCompacted", "totalLogFilesSize"} <= replaced
    assert {"table_optimizing_lag_duration_mills", "table_summary_total_files_size"} <= replaced
