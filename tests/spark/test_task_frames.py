"""What is refused before anything is done on a session."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import lakeward
from lakeward.base.errors import UsageError
from lakeward.spark.location_frame import _key_column


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
