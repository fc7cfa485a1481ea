"""The session that frames are made on."""

from __future__ import annotations

import pytest

import lakeward
from lakeward.base.errors import UsageError


def test_another_session_is_refused() -> None:
    """Before the table is opened."""
    with pytest.raises(UsageError, match="The session is a builtins"):
        lakeward.spark.read("spark", "/nowhere")
