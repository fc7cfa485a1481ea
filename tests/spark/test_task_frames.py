"""What is refused before anything is done on a session."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

import lakeward
from lakeward.base.errors import Refused, UsageError
from lakeward.index.index_type import IndexType
from lakeward.spark.location_frame import _key_column, _open_index
from tests.write.own_record_index import built, catch_up
from tests.write.test_whole_write import CLOCK
from tests.write.writing import write


def test_another_session_is_refused() -> None:
    """Before the table is opened."""
    with pytest.raises(UsageError, match="The session is a builtins"):
        lakeward.spark.read("spark", "/nowhere")


def test_the_column_of_keys() -> None:
    """Hudi's own, or the only one; the nearest is named for one that is not there, and none is written over."""
    assert _key_column(SimpleNamespace(columns=["n", "_hoodie_record_key"]), None) == "_hoodie_record_key"
    assert _key_column(SimpleNamespace(columns=["id"]), None) == "id"
    assert _key_column(SimpleNamespace(columns=["id", "n"]), "id") == "id"
    with pytest.raises(UsageError, match="no column '_hoodie_record_key'"):
        _key_column(SimpleNamespace(columns=["id", "n"]), None)
    with pytest.raises(UsageError, match="no column 'city_id'") as raised:
        _key_column(SimpleNamespace(columns=["cityid", "n"]), "city_id")
    assert "cityid" in raised.value.remedy
    with pytest.raises(UsageError, match="has a column 'partition' already"):
        _key_column(SimpleNamespace(columns=["id", "partition"]), "id")


def test_an_index_of_another_moment_is_not_asked(tmp_path: Path) -> None:
    """The index took in a commit after the table was opened: rows are read instead, and the index that is
    named is refused. Keeps 3 of spark/location_frame."""
    base = built(tmp_path / "t", rows=[("k1", 1, "p", "a")])
    table = lakeward.Table(str(base))
    assert _open_index(table, None) is not None and _open_index(table, IndexType.SIMPLE) is None
    write(base, [("k2", 1, "p", "b")], clock=CLOCK)
    catch_up(base)
    assert _open_index(table, None) is None
    with pytest.raises(Refused, match="The record index is not asked where keys are") as raised:
        _open_index(table, IndexType.RECORD)
    assert "completed after the moment that is read" in raised.value.why
    assert _open_index(table.refresh(), IndexType.RECORD) is not None
    with pytest.raises(Refused, match="The metadata index is not asked"):
        _open_index(table, IndexType.METADATA)
    with pytest.raises(UsageError, match="The bloom index is not asked by tasks"):
        _open_index(table, IndexType.BLOOM)


def test_an_index_is_not_asked_for_the_past(tmp_path: Path) -> None:
    """A table that is read as of an earlier moment: the index knows where keys are, and not where they were."""
    base = built(tmp_path / "t", rows=[("k1", 1, "p", "a")])
    first = lakeward.Table(str(base)).instant
    write(base, [("k2", 1, "p", "b")], clock=CLOCK)
    past = lakeward.Table(str(base), as_of=first)
    assert past.count() == 1
    assert _open_index(past, None) is None
    with pytest.raises(Refused, match="The record index is not asked where keys are") as raised:
        _open_index(past, IndexType.RECORD)
    assert first in raised.value.why
