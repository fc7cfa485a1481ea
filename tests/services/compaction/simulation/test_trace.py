"""Traces of tables, as documents."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest

from lakeward.base.errors import BrokenFile
from lakeward.services.compaction.simulation.trace import (
    CommitAuthor,
    Trace,
    TracedCommit,
    TracedFile,
    parse_trace,
    properties_of,
    write_trace,
)
from lakeward.table.table_config import TableConfig

TRACE = Trace(
    groups=(("day=1", "f-0"), ("day=2", "f-1")),
    commits=(
        TracedCommit(1, 2, CommitAuthor.WRITER, (TracedFile(0, 100, True), TracedFile(1, 7, False, 0.25))),
        TracedCommit(3, 4, CommitAuthor.COMPACTION, (TracedFile(1, 6, False, 0.0, (1,)),)),
        TracedCommit(5, 6, CommitAuthor.CLUSTERING, (TracedFile(1, 90, True),), (0,)),
    ),
    begins=2,
    ends=9,
    properties={"hoodie.table.version": "9"},
    unknown_bases=1,
)


def test_a_trace_is_read_as_it_was_written() -> None:
    """Keeps 1 of services/compaction/simulation/trace."""
    assert parse_trace(write_trace(TRACE), file="t.json") == TRACE
    assert [commit.began for commit in TRACE.replayed] == [3, 5]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"lakeward_trace": 2}, "It has version 2; this release reads 1."),
        ({"commits": [[1, 5, "writer", [[7, 1, True, 0, []]], []]]}, "has a file of no group"),
        ({"commits": [[1, 5, "writer", [[0, -1, True, 0, []]], []]]}, "or of no size"),
        ({"commits": [[1, 5, "nobody", [], []]]}, "'nobody' is not a valid CommitAuthor"),
        ({"commits": [[1, 5, "writer", [], [2]]]}, "replaces a group that there is not"),
        ({"commits": [[1, 5, "writer", [], []], [1, 4, "writer", [], []]]}, "after one that completed later"),
        ({"ends": 5}, "It ends before its last commit."),
    ],
)
def test_what_is_no_trace_is_refused(changed: dict[str, object], why: str) -> None:
    """Keeps 2 of services/compaction/simulation/trace: with the file's name, and how one is made."""
    document = orjson.loads(write_trace(TRACE)) | changed
    with pytest.raises(BrokenFile, match="is no trace") as refused:
        parse_trace(orjson.dumps(document), file="t.json")
    assert refused.value.what == "t.json is no trace of a table."
    assert why in refused.value.why and "lakeward record" in refused.value.remedy


def test_texts_that_are_no_traces() -> None:
    for content in (b"", b"[]", b"{}", b'{"lakeward_trace": 1}', b"PAR1"):
        with pytest.raises(BrokenFile):
            parse_trace(content, file="t.json")


def test_a_trace_that_is_given_away_has_no_names() -> None:
    """Keeps 3 of services/compaction/simulation/trace: not even as hashes that one could guess, and groups stay apart
    by partition."""
    hashed = TRACE.hashed(b"salt")
    assert {len(name) for group in hashed.groups for name in group} == {16}
    assert hashed.groups[0][0] != hashed.groups[1][0] and hashed.groups != TRACE.hashed(b"other").groups
    assert replace(hashed, groups=TRACE.groups) == TRACE
    config = TableConfig(
        {"hoodie.table.version": "9", "hoodie.table.name": "secret", "hoodie.table.ordering.fields": "salary"}
    )
    assert "salary" not in str(properties_of(config)) and "secret" not in str(properties_of(config))
    assert TableConfig(properties_of(config)).merge_mode == config.merge_mode == "EVENT_TIME_ORDERING"
