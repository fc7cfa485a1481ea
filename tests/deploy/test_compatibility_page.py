"""The matrix of refusals is what the rows say."""

from __future__ import annotations

from deploy.compatibility_page import COLUMNS, DOCUMENT, document, matrix
from lakeward.protocol.refusals.eligibility import ROWS, TableService


def test_the_matrix_is_current() -> None:
    """Remade by `make compatibility-page`."""
    assert DOCUMENT.read_text() == document(DOCUMENT.read_text())


def test_the_matrix_has_each_row_once() -> None:
    """Every row is there with an answer for every service."""
    lines = matrix().splitlines()[2:]
    assert [line.split(" | ")[1].strip("`") for line in lines] == [row.id for row in ROWS]
    assert {len(line.split(" | ")) for line in lines} == {2 + len(TableService)}
    assert COLUMNS.keys() == set(TableService)
