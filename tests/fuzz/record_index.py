"""What a record index is made of: bucket files, listed and asked, and manifests, also with a checksum that fits."""

from __future__ import annotations

import contextlib
import io
import json
import random
import zlib

import pyarrow as pa

from lakeward.base.errors import LakewardError
from lakeward.format.hfile.block import HFileCodec
from lakeward.format.hfile.checksum import ChecksumType
from lakeward.format.hfile.writer import HFileWriter
from lakeward.index.record.bucket import Bucket
from lakeward.index.record.bucket_file import BucketFile
from lakeward.index.record.bucket_writer import BucketFileWriter
from lakeward.index.record.created_with import KeyScope
from lakeward.index.record.record_file import FileKind, IndexGroup, RecordFile
from lakeward.index.record.record_manifest import RECORD_FORM, RecordManifest
from lakeward.index.record.record_options import LookupMode, LookupOptions
from tests.index.record.bucket_files import locations, random_entries, random_key, written

KEYS = pa.array(sorted({random_key(random.Random(number)) for number in range(40)}), pa.string())


def corpus() -> list[bytes]:
    """Files as they are written, and without compression and checksums, which chance gets further into."""
    chance = random.Random(0)
    found = []
    for scope in KeyScope:
        for with_instants in (True, False):
            entries = random_entries(chance, 30, scope, ["s1", "s2"])
            found.append(written(entries, scope=scope, with_instants=with_instants))
            out = io.BytesIO()
            writer = BucketFileWriter(out, scope=scope, with_instants=with_instants)
            writer._file = HFileWriter(out, codec=HFileCodec.NONE, block_bytes=200, checksum=ChecksumType.NULL)
            writer.add(locations(entries, scope))
            writer.finish()
            found.append(out.getvalue())
    manifest = RecordManifest(3, KeyScope.GLOBAL).with_first_group(2)
    file = RecordFile(IndexGroup(0, 1, 0), FileKind.DELTA, "data/0-1-0_2-ab_1.hfile", 900, 4, 1, "1", None)
    manifest = manifest.with_commit("1", "2", [file]).with_commit("3", None, ()).with_settled({"1": "2"})
    inner = json.dumps({"version": RECORD_FORM.version, **RECORD_FORM.document_of(manifest)}).encode()
    return [*found, RECORD_FORM.encode(manifest), inner, b"[]", b"[" * 4000]


def one_input(data: bytes) -> None:
    with contextlib.suppress(LakewardError):
        file = BucketFile(io.BytesIO(data), length=len(data), name="x.hfile")
        with contextlib.suppress(LakewardError):
            assert sum(batch.num_rows for batch in file.locations()) == file.entry_count
        for mode in (LookupMode.SEEK, LookupMode.SCAN):
            with contextlib.suppress(LakewardError):
                found = Bucket([file], scope=file.scope, options=LookupOptions(mode)).look_up(KEYS)
                assert set(found.column(0).to_pylist()) <= {*KEYS.to_pylist()}
    with contextlib.suppress(LakewardError):
        manifest = RECORD_FORM.decode(data, path="manifest-3.json", number=3)
        assert RECORD_FORM.decode(RECORD_FORM.encode(manifest), path="manifest-3.json", number=3) == manifest
    with contextlib.suppress(ValueError, RecursionError):
        text = json.dumps(json.loads(data), sort_keys=True, separators=(",", ":")).encode()
        with contextlib.suppress(LakewardError):
            RECORD_FORM.decode(b'{"crc32": %d, "manifest": %s}' % (zlib.crc32(text), text), path="m", number=3)
