"""An object store as storage: S3 and what is compatible with it, Google Cloud Storage, Azure.

There are no folders, and nothing is renamed. A file is there when its upload ends, whole, and it can be replaced on
the condition that it is still the one that was read. So two who create or replace the same file are told apart.

A conditional write whose reply is lost leaves the question who was it. Each of Lakeward carries a random mark in the
object's metadata, and the answer is read from there before anything is sent again.

    send --ok--> done       send --refused--> has our mark? done : refused
                            send --no answer--> read: our mark? done; another? refused; none: send again

Touches: the bucket; the object, through the function it is given.
Keeps:   1. `create` and `replace` say yes or no and are right; where they cannot know they raise `OSError`;
         2. an upload that is broken off is never seen, though the store may keep (and charge for) its parts until a
            rule of the bucket's life cycle removes them;
         3. memory stays below `CACHE_BLOCKS` blocks and one range.
"""

from __future__ import annotations

import errno
import io
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    NotFoundError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)

from lakeward.base.errors import AlreadyExists, NotFound, VersionChanged
from lakeward.storage.object_client import Clients, clients_of
from lakeward.storage.object_url import ObjectUrl
from lakeward.storage.storage import FileStatus, Version

if TYPE_CHECKING:
    from obstore import ObjectMeta, PutMode
from collections import OrderedDict

MARK = "lakeward"
"""Key of the metadata that says which write made an object; a name that every store takes."""

PART_BYTES = 8 * 1024 * 1024
"""Bytes of a part of an upload, of which a store takes 10,000; what is smaller is written in one request."""
PARTS_AT_ONCE = 3

PAUSES_SECONDS = (0.5, 2.0, 5.0)
"""Before a conditional write that did not arrive is sent again."""


BLOCK = 256 * 1024
RUN_MAX = 16
"""Blocks of the largest request."""
CACHE_BLOCKS = 128
CURSORS_MAX = 32


class ObjectInput(io.RawIOBase):
    """A file in an object store, read in ranges, as a seekable reader.

    Parquet is read column by column, each from a place of its own, logs from front to back or head to head. So blocks
    are kept, the least recently used go first, and a reader that goes on where an earlier range ended gets twice as
    much with the next request: reading a head costs one small request, and a scan few large ones.

    Why not pyarrow's own file systems: they take other credentials, other names for the endpoint, and one library more
    for each store; a table would have to be opened twice. What they do better, several ranges at a time, readers of one
    column after another do not use.
    """

    def __init__(self, size: int, fetch: Callable[[int, int], bytes]) -> None:
        """
        Args:
            fetch: the bytes from the first offset up to the second, exactly.
        """
        self._size = size
        self._fetch = fetch
        self._position = 0
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        self._ends: OrderedDict[int, int] = OrderedDict()
        """Ends of earlier requests: the number of the next block, and how many blocks they had."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if start + offset < 0:
            raise ValueError("before the beginning of the file")
        self._position = start + offset
        return self._position

    def readall(self) -> bytes:
        start, self._position = self._position, max(self._position, self._size)
        return self._fetch(start, self._size) if start < self._size else b""

    def readinto(self, buffer: Any) -> int:
        target = memoryview(buffer).cast("B")
        wanted = min(len(target), max(0, self._size - self._position))
        if wanted >= BLOCK * RUN_MAX:
            # More than any request for blocks would bring: straight into its place.
            target[:wanted] = self._fetch(self._position, self._position + wanted)
            self._position += wanted
            return wanted
        done = 0
        while done < wanted:
            number, offset = divmod(self._position, BLOCK)
            part = memoryview(self._block(number))[offset : offset + wanted - done]
            target[done : done + len(part)] = part
            done += len(part)
            self._position += len(part)
        return done

    def _block(self, number: int) -> bytes:
        if number not in self._blocks:
            self._load(number)
        self._blocks.move_to_end(number)
        return self._blocks[number]

    def _load(self, number: int) -> None:
        before = self._ends.pop(number, 0)
        # Several cursors share the cache; what one of them reads ahead must not push out what another did.
        cursors = 1 + sum(1 for blocks in self._ends.values() if blocks > 1)
        count = max(1, min(2 * before, RUN_MAX, CACHE_BLOCKS // (2 * cursors)))
        start = number * BLOCK
        end = min(start + count * BLOCK, self._size)
        data = self._fetch(start, end)
        for offset in range(0, len(data), BLOCK):
            self._blocks[number + offset // BLOCK] = data[offset : offset + BLOCK]
        while len(self._blocks) > CACHE_BLOCKS:
            self._blocks.popitem(last=False)
        self._ends[number + count] = count
        while len(self._ends) > CURSORS_MAX:
            self._ends.popitem(last=False)


class ObjectStore:
    def __init__(self, url: ObjectUrl, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._root = f"{url.root}/"
        self._url = url
        self._sleep = sleep
        self._opened: Clients | None = None

    def list(self, folder: str) -> list[FileStatus]:
        prefix = self._key(folder)
        with _translated(folder):
            found = obstore.list_with_delimiter(self._clients.repeating, prefix or None)
        above = f"{prefix}/" if prefix else ""
        folders = [FileStatus(self._root + name, 0, 0.0, True) for name in found["common_prefixes"]]
        # Hadoop marks a folder by an empty object of its name with a slash, which is listed as if it were in itself.
        files = [self._status(meta) for meta in found["objects"] if meta["path"].startswith(above) and meta["path"]]
        return sorted(folders + files)

    def stat(self, path: str) -> FileStatus | None:
        meta = self._head(path) if self._key(path) else None
        if meta is not None:
            return self._status(meta)
        return FileStatus(path, 0, 0.0, True) if self._is_folder(path) else None

    def read(self, path: str) -> bytes:
        return self.read_version(path)[0]

    def read_version(self, path: str) -> tuple[bytes, Version]:
        data, version, _ = self._get(path)
        return data, version

    def open_input(self, path: str) -> BinaryIO:
        key, meta = self._key(path), self._head(path)
        if meta is None:
            raise _missing(path)

        def fetch(start: int, end: int) -> bytes:
            with _translated(path):
                # The version too: half of one file and half of another must not become one.
                options: Any = {"range": (start, end)} | ({"if_match": meta["e_tag"]} if meta["e_tag"] else {})
                return bytes(obstore.get(self._clients.repeating, key, options=options).bytes())

        return io.BufferedReader(ObjectInput(meta["size"], fetch), buffer_size=64 * 1024)

    def open_output(self, path: str) -> BinaryIO:
        return cast(BinaryIO, _Upload(self, path))

    def create(self, path: str, data: bytes) -> None:
        self.replace(path, data, expected=None)

    def replace(self, path: str, data: bytes, *, expected: Version | None) -> Version:
        mark = uuid.uuid4().hex
        for pause in (*PAUSES_SECONDS, None):
            try:
                return self._put(path, data, mark, expected)
            except (AlreadyExists, VersionChanged):
                if (version := self._version_of(path, mark)) is not None:
                    return version  # an earlier one arrived, without a reply
                raise
            except PermissionError:
                raise
            except OSError as error:
                if (version := self._version_of(path, mark)) is not None:
                    return version
                if pause is None:
                    raise error
                self._sleep(pause)
        raise AssertionError("the last pause is None")

    def make_folder(self, path: str) -> None:
        """Nothing: a folder is there as soon as something is in it."""

    def delete(self, path: str) -> bool:
        if self._head(path) is None:
            return False
        with _translated(path):
            obstore.delete(self._clients.repeating, self._key(path))
        return True

    def delete_many(self, paths: Sequence[str]) -> None:
        if not paths:
            return
        with _translated(paths[0]):
            try:
                obstore.delete(self._clients.repeating, [self._key(path) for path in paths])
            except NotFoundError:
                pass  # of stores that take them one by one and say what was not there
            else:
                return
        for path in paths:
            self.delete(path)

    def delete_folder(self, path: str) -> bool:
        deleted = False
        with _translated(path):
            for batch in obstore.list(self._clients.repeating, prefix=self._key(path)):
                obstore.delete(self._clients.repeating, [meta["path"] for meta in batch])
                deleted = True
        return deleted

    def free_bytes(self, path: str) -> int | None:
        return None

    @property
    def _clients(self) -> Clients:
        if self._opened is None:
            self._opened = clients_of(self._url)
        return self._opened

    def _key(self, path: str) -> str:
        if path == self._url.root:
            return ""
        assert path.startswith(self._root), f"{path} is not in {self._url.root}"
        return path[len(self._root) :]

    def _status(self, meta: ObjectMeta) -> FileStatus:
        return FileStatus(self._root + meta["path"], meta["size"], meta["last_modified"].timestamp(), False)

    def _head(self, path: str) -> ObjectMeta | None:
        with _translated(path):
            try:
                return obstore.head(self._clients.repeating, self._key(path))
            except FileNotFoundError:
                return None

    def _is_folder(self, path: str) -> bool:
        with _translated(path):
            found = obstore.list(self._clients.repeating, prefix=self._key(path) or None, chunk_size=1)
            return any(batch for batch in found)

    def _get(self, path: str) -> tuple[bytes, Version, str | None]:
        with _translated(path):
            try:
                got = obstore.get(self._clients.repeating, self._key(path))
                data = bytes(got.bytes())
            except FileNotFoundError as error:
                raise _missing(path) from error
        return data, _version(got.meta), got.attributes.get(MARK)

    def _version_of(self, path: str, mark: str) -> Version | None:
        """The version of the file, if the write with this mark made it."""
        try:
            _, version, found = self._get(path)
        except NotFound:
            return None
        return version if found == mark else None

    def _put(self, path: str, data: bytes, mark: str, expected: Version | None) -> Version:
        mode: PutMode = "create"
        if expected is not None:
            known = {"e_tag": expected.e_tag, "version": expected.generation}
            mode = cast("PutMode", {key: value for key, value in known.items() if value is not None})
        with _translated(path):
            try:
                done = obstore.put(
                    self._clients.once, self._key(path), data, mode=mode, attributes={MARK: mark}, use_multipart=False
                )
            except (AlreadyExistsError, PreconditionError, FileNotFoundError) as error:
                if expected is not None:
                    raise VersionChanged(f"{path} is another one than was read.") from error
                if isinstance(error, FileNotFoundError):
                    raise NotFound(f"The bucket of {path} does not exist.") from error
                raise AlreadyExists(f"{path} exists already.") from error
        return _version(done)


class _Upload(io.RawIOBase):
    """A new file. The first part stays here until it is full: what is no larger is created in one request, which is
    refused where there is a file. Before the first part of a larger one is sent, we check that its name is free; no
    other process uses it."""

    def __init__(self, store: ObjectStore, path: str) -> None:
        self._store = store
        self._path = path
        self._first = bytearray()
        self._parts: Any = None
        self._written = 0
        if store._head(path) is not None:
            raise AlreadyExists(f"{path} exists already.")

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._written

    def write(self, data: Any) -> int:
        buffer = memoryview(data).cast("B")
        if self._parts is None and len(self._first) + len(buffer) > PART_BYTES:
            self._begin_parts()
        if self._parts is None:
            self._first += buffer
        else:
            with _translated(self._path):
                self._parts.write(bytes(buffer))
        self._written += len(buffer)
        return len(buffer)

    def close(self) -> None:
        if self.closed:
            return
        parts, self._parts = self._parts, None
        super().close()
        if parts is None:
            self._store.create(self._path, bytes(self._first))
        else:
            with _translated(self._path):
                parts.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.__del__()

    def __del__(self) -> None:
        # A file that was not closed was not finished. Parts that were sent are never put together.
        self._parts = None
        super().close()

    def _begin_parts(self) -> None:
        with _translated(self._path):
            self._parts = obstore.open_writer(
                self._store._clients.repeating,
                self._store._key(self._path),
                buffer_size=PART_BYTES,
                max_concurrency=PARTS_AT_ONCE,
            )
            self._parts.write(bytes(self._first))
        self._first.clear()


@contextmanager
def _translated(path: str) -> Iterator[None]:
    """Errors of the client, as those of a file system: with the path, and short."""
    try:
        yield
    except (PermissionDeniedError, UnauthenticatedError) as error:
        raise PermissionError(errno.EACCES, _short(error), path) from error
    except BaseError as error:
        raise OSError(errno.EIO, _short(error), path) from error


def _short(error: Exception) -> str:
    # Its text goes on for pages, and an address in it may hold a signature.
    line = (str(error).splitlines() or [type(error).__name__])[0]
    return line.partition("?")[0][:300]


def _version(meta: Any) -> Version:
    return Version(meta["e_tag"], meta["version"])


def _missing(path: str) -> NotFound:
    return NotFound(f"{path} does not exist.")
