"""The kinds of jobs, as stores and metrics name them."""

from __future__ import annotations

from lakeward.protocol.job_kind import JobKind


def test_values_never_change_their_meaning() -> None:
    """Keeps of protocol/job_kind: rows of older releases, and the series of an operator's graphs, go on."""
    assert {kind.name: kind.value for kind in JobKind} == {
        "RECOVERY": "recovery",
        "PLAN_EXPIRY": "plan-expiry",
        "ROLLBACK": "rollback",
        "COMPACTION": "compaction",
        "CLUSTERING": "clustering",
        "INDEX": "index",
        "TTL": "ttl",
        "CLEAN": "clean",
        "ARCHIVE": "archive",
        "METADATA_CLEAN": "metadata-clean",
        "METADATA_COMPACTION": "metadata-compaction",
        "VERIFICATION": "verification",
    }
