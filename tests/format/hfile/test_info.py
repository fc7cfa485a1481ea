"""The file info of an HFile."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.base.errors import BrokenFile, Unsupported
from lakeward.format.hfile.block import HFileBlock
from lakeward.format.hfile.info import decode_file_info, encode_file_info
from lakeward.format.hfile.range import HFileRange
from tests.format.hfile.hfile_files import file_info, hfile, reader

SOURCE = HFileRange(io.BytesIO(b""), offset=0, length=0, name="x")


@given(info=st.dictionaries(st.text(max_size=5).map(lambda name: "x" + name), st.binary(max_size=300), max_size=5))
def test_infos_come_back(info: dict[str, bytes]):
    """Every name with its bytes."""
    assert decode_file_info(SOURCE, HFileBlock(0, 0, encode_file_info(info))) == info


@pytest.mark.parametrize(
    ("info", "why"),
    [
        ({b"MAX_MEMSTORE_TS_KEY": bytes(7) + b"\x01", b"KEY_VALUE_VERSION": bytes(4)}, "versions"),
        ({b"hfile.MAX_TAGS_LEN": bytes(4)}, "tags"),
    ],
)
def test_entries_with_versions_or_tags_are_refused(info: dict[bytes, bytes], why: str):
    """Their entries are longer than Lakeward's, and no writer but HBase itself makes them."""
    with pytest.raises(Unsupported, match=why):
        reader(hfile([(b"a", b"v")], info=info))


def test_what_is_no_info_is_broken():
    """Each cut, another magic, and a name that is no text."""
    payload = file_info({b"schema": b"{}", b"a": b"b"})
    for bad in (*(payload[:length] for length in range(len(payload))), b"X" + payload, file_info({b"\xff": b""})):
        with pytest.raises(BrokenFile, match="file info"):
            decode_file_info(SOURCE, HFileBlock(0, 0, bad))
