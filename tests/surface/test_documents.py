"""Keeps 1 of surface/documents: a document has each field of the record that it is of."""

from __future__ import annotations

from dataclasses import fields

import pytest

from lakeward.state.records import (
    PROGRESS,
    CleanerProgress,
    ControlKind,
    ControlRecord,
    EventRecord,
    JobRecord,
    MonthlyCost,
    TargetKind,
)
from lakeward.surface.documents import ControlDocument, Document, EventDocument, JobDocument, MonthDocument

BESIDE_THE_RECORD = {"progress", "deletions", "card", "beside_hudi"}


@pytest.mark.parametrize(
    ("document", "record"),
    [
        (JobDocument, JobRecord),
        (EventDocument, EventRecord),
        (MonthDocument, MonthlyCost),
        (ControlDocument, ControlRecord),
    ],
)
def test_a_document_has_each_field_of_its_record(document: type[Document], record: type) -> None:
    shown = {name for name in document.model_fields if name.removesuffix("_time") == name and name != "time"}
    assert shown - BESIDE_THE_RECORD == {each.name for each in fields(record)}


def test_what_a_job_has_not_is_not_shown() -> None:
    """A job that ended has no progress, and what is no clean has no deletions."""
    ended = JobRecord("j1", "orders", "compaction", 1.0, ended_at=2.0, figures={"rows": 3})
    assert JobDocument.of(ended).as_json() == {
        "id": "j1",
        "table": "orders",
        "service": "compaction",
        "began_at": 1.0,
        "began_time": "1970-01-01T00:00:01.000Z",
        "instant": None,
        "holder": None,
        "token": None,
        "operations": 0,
        "read_bytes": 0,
        "write_bytes": 0,
        "memory_bytes": 0,
        "ended_at": 2.0,
        "ended_time": "1970-01-01T00:00:02.000Z",
        "result": None,
        "error": None,
        "figures": {"rows": 3},
        "from_timeline": False,
    }


def test_a_job_that_runs_says_how_far_it_is() -> None:
    """Its progress stands apart from figures, which it has none of, and times in it are shown twice."""
    running = JobRecord("j1", "orders", "clean", 1.0, figures={PROGRESS: {"step": "deleting", "waiting_since": 3.0}})
    shown = JobDocument.of(running, [CleanerProgress("j1", "2026", 2, 5, 4.0)]).with_card(None).as_json()
    assert shown["figures"] == {}
    assert shown["progress"] == {
        "step": "deleting",
        "waiting_since": 3.0,
        "waiting_since_time": "1970-01-01T00:00:03.000Z",
    }
    assert shown["deletions"] == [{"instant": "2026", "files": 2, "files_total": 5}]
    assert shown["card"] is None


def test_a_control_names_its_file_group() -> None:
    control = ControlRecord(ControlKind.PAUSE, TargetKind.FILE_GROUP, "orders", "why", "a@b", 1.0, ("p", "f"), 9.0)
    shown = ControlDocument.of(control).as_json()
    assert (shown["file_group"], shown["until_time"]) == (["p", "f"], "1970-01-01T00:00:09.000Z")
    assert (shown["kind"], shown["target_kind"]) == ("pause", "file_group")
