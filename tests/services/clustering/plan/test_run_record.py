"""What a commit says of a clustering, read back."""

from __future__ import annotations

import pytest

from lakeward.format.timeline.commit_metadata import CommitMetadata
from lakeward.services.clustering.plan.run_record import RECORD_KEY, read_record


@pytest.mark.parametrize("text", [None, "", "{", "7", "[]", '{"file_groups": 3}', '{"file_groups": "x", "files": 1}'])
def test_what_cannot_be_read_is_no_run(text: str | None) -> None:
    """Keeps of services/clustering/plan/run_record: an operator's own entry of that name, or a later release's."""
    commit = CommitMetadata(extra_metadata={} if text is None else {RECORD_KEY: text})
    assert read_record(commit, instant="20261129000000000", completed_at=0.0) is None
