"""Addresses to listen on."""

from __future__ import annotations

import pytest

from lakeward.config.listen_address import is_loopback


@pytest.mark.parametrize(
    ("listen", "is_here"),
    [
        ("127.0.0.1:1", True),
        ("127.9.9.9:1", True),
        ("[::1]:1", True),
        ("localhost:1", True),
        ("0.0.0.0:1", False),
        ("[::]:1", False),
        ("10.0.0.1:1", False),
        ("localhost.evil:1", False),
        ("box:1", False),
    ],
)
def test_what_is_reached_from_elsewhere_is_known(listen: str, is_here: bool) -> None:
    """The loopback interface is this machine's alone; a name may be anything."""
    assert is_loopback(listen) is is_here
