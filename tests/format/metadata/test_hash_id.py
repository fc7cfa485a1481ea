"""Hudi's hash of names."""

from __future__ import annotations

import base64

from lakeward.format.metadata.key import hash_id


def test_hashes_are_hudis():
    """The expected hashes were found in the keys of a metadata table that Hudi wrote."""
    assert base64.b64encode(hash_id("part=0")) == b"t7lWL8M5YXw="
    assert base64.b64encode(hash_id("name")) == b"F5SYxeUa1U8="


def test_text_is_hashed_as_utf_8():
    """Any text has eight bytes."""
    assert {len(hash_id(text)) for text in ("", "ü", "鍵😀")} == {8}
    assert hash_id("ü") != hash_id("u")
