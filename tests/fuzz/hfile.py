"""HFiles: opened, scanned, searched by key and by prefix, and their meta blocks."""

from __future__ import annotations

import contextlib
import io

from lakeward.base.errors import LakewardError
from lakeward.format.hfile.block import HFileCodec
from lakeward.format.hfile.reader import HFileReader
from tests.format.hfile.hfile_files import HBASE, Form, hfile
from tests.fuzz.golden import files

_ENTRIES = [(f"key-{number:03}".encode(), b"value" * (number % 4)) for number in range(12)]


def corpus() -> list[bytes]:
    """Hudi's own, and by hand in forms that chance gets further into: not compressed, with and without checksums."""
    forms = (HBASE, Form(suffix=b"", codec=HFileCodec.NONE), Form(fanout=2, checksum=0, codec=HFileCodec.NONE))
    real = [data for data in files("v9_metadata", ".hoodie/metadata/*/*.hfile") if len(data) < 64 * 1024]
    return [*(hfile(_ENTRIES, form) for form in forms), *real]


def one_input(data: bytes) -> None:
    with contextlib.suppress(LakewardError):
        reader = HFileReader(io.BytesIO(data), length=len(data), name="x.hfile")
        with contextlib.suppress(LakewardError):
            reader.meta_block("bloom_filter")
        with contextlib.suppress(LakewardError):
            assert len(list(reader.entries())) == reader.entry_count
        with contextlib.suppress(LakewardError):
            assert set(reader.lookup([b"key-003", b"nothing"])) <= {b"key-003", b"nothing"}
        with contextlib.suppress(LakewardError):
            assert all(key.startswith(b"key-00") for key, _ in reader.with_prefixes([b"key-00"]))
