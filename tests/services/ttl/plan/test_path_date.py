"""Dates in partition paths."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from lakeward.base.errors import UsageError
from lakeward.services.ttl.plan.path_date import check_pattern, end_of_path


@pytest.mark.parametrize(
    ("path", "pattern", "over"),
    [
        ("2026-08-31", "yyyy-MM-dd", "2026-09-01T00"),
        ("dt=2026-08-31", "yyyy-MM-dd", "2026-09-01T00"),
        ("region=eu/20260831/05", "yyyyMMdd/HH", "2026-08-31T06"),
        ("2026/02/28", "yyyy/MM/dd", "2026-03-01T00"),
        ("dt=2026-08-31/part=7", "yyyy-MM-dd", "2026-09-01T00"),
        ("dt=2026-08-31/due=2026-08-31", "yyyy-MM-dd", "2026-09-01T00"),
        ("dt=2026-08-31/due=2027-01-01", "yyyy-MM-dd", None),
        ("dt=2026-02-30", "yyyy-MM-dd", None),
        ("dt=20260831", "yyyy-MM-dd", None),
        ("dt=2026-08-31x", "yyyy-MM-dd", None),
        ("dt=__HIVE_DEFAULT_PARTITION__", "yyyy-MM-dd", None),
        ("2026.08.31", "yyyy-MM-dd", None),
        ("", "yyyy-MM-dd", None),
    ],
)
def test_the_end_of_what_a_path_names(path: str, pattern: str, over: str | None) -> None:
    """Keeps of services/ttl/plan/path_date: what is no date, and where two dates differ, there is none."""
    check_pattern(pattern)
    found = end_of_path(path, pattern)
    assert found == (None if over is None else datetime.fromisoformat(f"{over}:00:00").replace(tzinfo=UTC).timestamp())


@pytest.mark.parametrize("pattern", ["", "yyyy-MM", "yyyy-mm-dd", "%Y-MM-dd", "yyyy-MM-dd-dd", "yyyyMMddHHHH"])
def test_other_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(UsageError, match="date format"):
        check_pattern(pattern)
