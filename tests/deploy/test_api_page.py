"""The document of the API is what the daemon answers."""

from __future__ import annotations

from deploy.api_page import DESCRIPTION, DOCUMENT, described, description, page


def test_both_are_as_the_code_says() -> None:
    """Remade by `make api-page`: a path, a parameter or a field that changes is a line of a diff."""
    document = described()
    assert DESCRIPTION.read_text() == description(document)
    assert DOCUMENT.read_text() == page(document)
