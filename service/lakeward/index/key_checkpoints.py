"""The record keys of file slices, sorted, in files that a build of an index which was stopped goes on with.

    <index>/building/<digest>.<rows>.keys     the keys of one slice; the digest is of what they were read from

    magic | frame | frame | … | end           frame: length, length before it was compressed, CRC-32 of everything from
                                              the first frame on, and keys as an Arrow record batch, by zstd
                                              end: a frame with the number of keys, whose lengths are 0

A slice whose files are the same, by name and size, has the same keys, whatever was committed meanwhile to others: its
file is found by its name, and needs no one to say that it is whole, since it is given the name once it is.

Touches: storage, reading.
Keeps:   1. what is read of a file are the keys that were written, or it is broken: no bit of it changes them silently,
            and none that is missing is passed over;
         2. slices whose keys may differ have different names;
         3. memory is bounded: no more than a frame is held.
See:     docs/decisions/0085-builds-that-go-on.md
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import BinaryIO, Final

import pyarrow as pa

from lakeward.base.errors import BrokenFile
from lakeward.base.paths import join
from lakeward.index.location import KEY_COLUMN
from lakeward.merge.rules.merge_rules import MergeRules
from lakeward.read.logs.committed_writes import CommittedWrites
from lakeward.storage.storage import Storage
from lakeward.table.file_group import FileSlice

FORM_VERSION: Final = 1
BUILD_FOLDER: Final = "building"
FRAME_BYTES: Final = 512 * 1024
"""What the keys of a frame take in memory, as long as one alone does not take more."""

_MAGIC: Final = b"LWKEYS01"
_LENGTHS: Final = struct.Struct(">II")
_HEAD: Final = struct.Struct(">III")
_TOTAL: Final = struct.Struct(">Q")
_FRAME_MAX: Final = 256 * 1024 * 1024
_NAME: Final = re.compile(r"(?P<digest>[0-9a-f]{32})\.(?P<rows>\d+)\.keys")


@dataclass(frozen=True, slots=True)
class KeyCheckpoint:
    digest: str
    rows: int
    """That the keys were read of; as many as keys, where none is there twice."""
    bytes: int = 0
    """What the file takes."""
    made_at: float = field(default=0.0, compare=False)
    """When the file was last written to."""

    @property
    def name(self) -> str:
        return f"{self.digest}.{self.rows}.keys"


def slice_digest(
    slice_: FileSlice, rules: MergeRules, made_of: tuple[str, ...], committed: CommittedWrites | None = None
) -> str:
    """The digest of what the keys of the slice are read from.

    Args:
        rules: by which its files are merged.
        made_of: the fields of which keys are made.
        committed: the writes whose blocks count, where a log has those of several: one may complete and leave its
            files as they are.
    """
    files = [[file.path, file.size] for file in slice_.files]
    named = [FORM_VERSION, slice_.partition_path, slice_.file_id, files, asdict(rules), made_of]
    if committed is not None and slice_.row_logs:
        named.append(asdict(committed))
    text = json.dumps(named, sort_keys=True, separators=(",", ":"), default=sorted)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def list_checkpoints(storage: Storage, folder: str) -> dict[str, KeyCheckpoint]:
    """The checkpoints in the folder of a build by their digests; none where there is no such folder."""
    found: dict[str, KeyCheckpoint] = {}
    for status in storage.list(folder):
        if not status.is_folder and (match := _NAME.fullmatch(status.name)) is not None:
            found[match["digest"]] = KeyCheckpoint(match["digest"], int(match["rows"]), status.size, status.modified)
    return found


def write_keys(sink: BinaryIO, batches: Iterable[pa.Array]) -> None:
    """Write keys, which are sorted and each of which comes once, as the content of a checkpoint."""
    sink.write(_MAGIC)
    checksum = number = 0

    def put(plain_size: int, size: int, data: bytes) -> None:
        nonlocal checksum
        checksum = _checksum(checksum, size, plain_size, data)
        sink.write(_HEAD.pack(size, plain_size, checksum))
        sink.write(data)

    for keys in batches:
        at_once = max(1, FRAME_BYTES * len(keys) // max(1, keys.nbytes))
        for start in range(0, len(keys), at_once):
            frame = pa.RecordBatch.from_arrays([keys.slice(start, at_once)], schema=KEY_COLUMN)
            plain = frame.serialize()
            data = pa.compress(plain, codec="zstd", asbytes=True)
            put(plain.size, len(data), data)
            number += frame.num_rows
    put(0, 0, _TOTAL.pack(number))


def read_keys(storage: Storage, folder: str, checkpoint: KeyCheckpoint) -> Iterator[pa.StringArray]:
    """Its keys, ascending by their bytes. Raises `NotFound`, and `BrokenFile` where it is not what was written."""
    path = join(folder, checkpoint.name)
    with storage.open_input(path) as source:
        if source.read(len(_MAGIC)) != _MAGIC:
            raise _broken(path, "It does not begin as one")
        checksum = number = 0
        while True:
            size, plain_size, expected = _HEAD.unpack(_whole(source, _HEAD.size, path))
            if max(size, plain_size) > _FRAME_MAX:
                raise _broken(path, f"A frame of it has {max(size, plain_size)} bytes")
            data = _whole(source, size or _TOTAL.size, path)
            checksum = _checksum(checksum, size, plain_size, data)
            if checksum != expected:
                raise _broken(path, "A checksum of it is another one than it says")
            if size == 0:
                break
            (keys,) = pa.ipc.read_record_batch(pa.decompress(data, plain_size, codec="zstd"), KEY_COLUMN).columns
            number += len(keys)
            yield keys
        if _TOTAL.unpack(data) != (number,) or source.read(1):
            raise _broken(path, "It does not end where it says")


def _checksum(before: int, size: int, plain_size: int, data: bytes) -> int:
    return zlib.crc32(data, zlib.crc32(_LENGTHS.pack(size, plain_size), before))


def _whole(source: BinaryIO, size: int, path: str) -> bytes:
    parts: list[bytes] = []
    while size and (part := source.read(size)):
        parts.append(part)
        size -= len(part)
    if size:
        raise _broken(path, "It ends too early")
    return b"".join(parts)


def _broken(path: str, why: str) -> BrokenFile:
    return BrokenFile(
        f"The checkpoint {path} of an index that is built is broken.",
        why=f"{why}.",
        remedy="It is made again when the index is built again.",
    )
