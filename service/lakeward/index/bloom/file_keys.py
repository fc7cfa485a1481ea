"""Which keys a base file or a log may have, by what is said of it: the range of its keys, and its bloom filter.

    base file    range and filter of its footer
    log          the keys of all its rows and deletes, whatever happened to them: their range, and a filter as Hudi
    makes
                 one for a base file. Logs themselves say neither

What is missing or broken rules no key out.

Touches: nothing; the footer of a base file, or a whole log, where it is read here.
Keeps:   a key that is in the file is never ruled out by a range or a filter that was made of its keys.
Memory:  the keys of one log.
Source:  RFC-06 (bloom filters and ranges of log files)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.base.paths import join
from lakeward.format.bloom_lookup import SIMPLE_TYPE_CODE, TYPE_CODE, BloomRows
from lakeward.format.metadata.base_file_stats import read_footer_entries
from lakeward.format.parquet.key_summary import BLOOM_KEY, BLOOM_TYPE_KEY, MAX_KEY, MIN_KEY, KeySummary
from lakeward.index.bloom.data_files import DataFile
from lakeward.index.bloom.java_order import java_order
from lakeward.read.slice_keys import log_keys
from lakeward.storage.storage import Storage
from lakeward.table.snapshot import TableSnapshot


@dataclass(frozen=True, slots=True)
class KeyRange:
    """No key of the file lies outside, in Java's order."""

    low: str
    high: str


@dataclass(frozen=True, slots=True)
class FileKeys:
    range: KeyRange | None
    filter: BloomRows | None

    @classmethod
    def of_footer(cls, entries: Mapping[bytes, bytes]) -> Self:
        text, kind = entries.get(BLOOM_KEY.encode()), entries.get(BLOOM_TYPE_KEY.encode(), SIMPLE_TYPE_CODE.encode())
        return cls(_range(entries), None if text is None else filter_of(text, kind.decode("utf-8", "replace")))

    @classmethod
    def of_file(cls, storage: Storage, path: str) -> Self:
        """What the footer of the base file says. Raises `BrokenFile`, `NotFound`."""
        with storage.open_input(path) as source:
            return cls.of_footer(read_footer_entries(source, file_name=path.rpartition("/")[2]))

    def possible(self, keys: pa.StringArray) -> pa.StringArray:
        """The keys that are not ruled out; none of them is null."""
        if self.range is not None and len(keys):
            low, high = java_order(pa.array([self.range.low, self.range.high]))
            ordered = java_order(keys)
            keys = keys.filter(pc.and_(pc.greater_equal(ordered, low), pc.less_equal(ordered, high)))
        if self.filter is not None:
            keys = keys.filter(pa.array(self.filter.lookup(keys)))
        return keys


def read_file_keys(storage: Storage, snapshot: TableSnapshot, file: DataFile) -> FileKeys:
    """Raises `BrokenFile`, `NotFound`, and of a log `Unsupported`."""
    if not file.is_log:
        return FileKeys.of_file(storage, join(snapshot.base_path, file.path))
    summary = KeySummary(keys_expected=None, bloom_type=TYPE_CODE)
    for keys in log_keys(storage, snapshot, file.path):
        if len(keys):
            summary.add(keys)
    return FileKeys.of_footer({name.encode(): value.encode() for name, value in summary.entries().items()})


def filter_of(text: bytes, type_code: str) -> BloomRows | None:
    """The filter of a footer's text; None where it is broken."""
    try:
        return BloomRows.of_base64(text, type_code)
    except ValueError:
        return None


def _range(entries: Mapping[bytes, bytes]) -> KeyRange | None:
    low, high = entries.get(MIN_KEY.encode()), entries.get(MAX_KEY.encode())
    if low is None or high is None:
        return None
    try:
        found = KeyRange(low.decode(), high.decode())
    except UnicodeDecodeError:
        return None
    in_order = java_order(pa.array([found.low, found.high])).to_pylist()
    return found if in_order[0] <= in_order[1] else None
