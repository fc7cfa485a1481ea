"""Hudi's keys for its archiver."""

from __future__ import annotations

import pytest

from lakeward.base.errors import UsageError
from lakeward.services.archive.plan.hudi_archiver_keys import ArchiveOptions, archive_options_of


def test_keys_and_what_wins() -> None:
    """Hudi's defaults; the newer of two names; what is given beside the settings."""
    assert archive_options_of({}) == ArchiveOptions()
    settings = {
        "hoodie.clean.commits.retained": "3",
        "hoodie.cleaner.commits.retained": "4",
        "hoodie.keep.max.commits": "40",
        "hoodie.timeline.compaction.batch.size": "5",
    }
    options = archive_options_of(settings, commits_max=50, commits_min=None)
    assert options == ArchiveOptions(commits_max=50, commits_cleaned=3, level_files=5)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"hoodie.keep.mx.commits": "3"}, "hoodie.keep.max.commits"),
        ({"hoodie.keep.max.commits": "some"}, "cannot be 'some'"),
        ({"hoodie.keep.max.commits": "0"}, "cannot be 0"),
        ({"hoodie.timeline.compaction.batch.size": "1"}, "cannot be 1"),
        ({"hoodie.keep.max.commits": "19"}, "more than 19 are too many"),
    ],
)
def test_what_does_not_go_together(settings: dict[str, str], words: str) -> None:
    """Each is reported with its key. Keeps of services/archive/plan/hudi_archiver_keys."""
    with pytest.raises(UsageError) as raised:
        archive_options_of(settings)
    assert words in str(raised.value) + (raised.value.why or "")
