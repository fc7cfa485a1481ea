"""The record keys that are looked for, and what finds them: in columns of keys, and in text of any kind.

    in a column    by a hash of 64 bits, then by all bytes
    in text        by the last eight bytes of a key, then by all of them, and by the bytes around them

Text is what holds no rows: commits, plans, footers, statistics, manifests, paths. A key counts as there where its
length stands before it (Avro, Thrift, Java), or where neither neighbour is a letter, a digit, `_` or `-`. So
`order-100` is not found in `order-1000`. A key of fewer than eight bytes occurs in text by chance, and is looked for in
columns alone.

Touches: nothing.
Keeps:   1. a key in a column is found, and no other one, whatever their hashes are;
         2. a key of eight bytes or more is found in text with its length before it, or as a word, also as JSON or a URL
            writes it, and not as a part of a longer word.
Memory:  the keys, 24 bytes for each, and a few times the batch or the stretch of text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.index.record.key_filter import key_hashes

TEXT_KEY_BYTES_MIN: Final = 8
_WORD_BYTES: Final = 8
_FILTER_BITS: Final = 20
_SPREAD: Final = np.uint64(0x9E3779B185EBCA87)

Numbers = npt.NDArray[np.int64]
"""Places of keys among those that are looked for."""

_NONE: Final = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class _Needles:
    """The forms of the keys in text."""

    texts: Sequence[bytes]
    keys: Numbers
    """The key of each."""
    endings: npt.NDArray[np.uint64]
    """The last eight bytes of each; the needles are sorted by them."""
    may_end: npt.NDArray[np.bool_]
    """Whether a needle may end with eight bytes, by a few bits of their hash."""

    @classmethod
    def of(cls, keys: Sequence[str]) -> Self:
        found = [
            (text, number) for number, key in enumerate(keys) for text in _forms(key) if len(text) >= TEXT_KEY_BYTES_MIN
        ]
        endings = np.array([int.from_bytes(text[-_WORD_BYTES:], "little") for text, _ in found], np.uint64)
        order = np.argsort(endings, kind="stable")
        endings = endings[order]
        may_end = np.zeros(1 << _FILTER_BITS, np.bool_)
        may_end[_spread(endings)] = True
        numbers = np.array([number for _, number in found], np.int64)
        return cls([found[at][0] for at in order], numbers[order], endings, may_end)


class ErasureKeys:
    def __init__(self, keys: Sequence[str]) -> None:
        """
        Args:
            keys: each once.
        """
        assert len(set(keys)) == len(keys)
        self.keys: pa.StringArray = pa.array(keys, pa.string())
        hashes = key_hashes(self.keys)
        order = np.argsort(hashes, kind="stable")
        self._order, self._hashes = order, hashes[order]
        # Two keys of one hash: then a hash says too little, and the library compares.
        self._are_distinct = bool((self._hashes[1:] != self._hashes[:-1]).all())
        self._needles = _Needles.of(keys)
        self.bytes_max = max((len(text) for text in self._needles.texts), default=0)
        """The bytes of the longest form in text, 0 where no key is looked for there."""

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def too_short_for_text(self) -> int:
        return len(self) - len(np.unique(self._needles.keys))

    def in_column(self, column: pa.Array) -> Numbers:
        """The keys that the column has, in any order; null is none.

        Args:
            column: text or binary.
        """
        if not len(column) or not len(self):
            return _NONE
        hashes = key_hashes(column)
        places = np.searchsorted(self._hashes, hashes)
        places[places == len(self)] = 0
        rows = np.flatnonzero(self._hashes[places] == hashes)
        if not len(rows):
            return _NONE
        candidates = column.take(pa.array(rows)).cast(pa.binary())
        if not self._are_distinct:
            found = pc.index_in(candidates, value_set=self.keys.cast(pa.binary()))
            return np.unique(found.drop_null().to_numpy(zero_copy_only=False).astype(np.int64))
        numbers = self._order[places[rows]]
        same = pc.equal(self.keys.take(pa.array(numbers)).cast(pa.binary()), candidates).fill_null(False)
        return np.unique(numbers[same.to_numpy(zero_copy_only=False)])

    def in_text(self, data: bytes, *, known: npt.NDArray[np.bool_] | None = None, goes_on: bool = False) -> Numbers:
        """The keys that the text has.

        Args:
            known: keys that need not be looked for, by their places.
            goes_on: there is more text behind it, so that one that ends with it is not judged yet.
        """
        found: set[int] = set()
        for end, ending in self._endings(data):
            if goes_on and end == len(data):
                continue
            at = int(np.searchsorted(self._needles.endings, ending))
            while at < len(self._needles.endings) and self._needles.endings[at] == ending:
                key = int(self._needles.keys[at])
                is_known = key in found or (known is not None and known[key])
                if not is_known and _stands_at(data, end, self._needles.texts[at]):
                    found.add(key)
                at += 1
        return np.array(sorted(found), np.int64)

    def masked(self, text: str, name_of: Callable[[int], str]) -> str:
        """The text, without the keys that `in_text` finds in it: each in the name that it is called by instead."""
        for number in self.in_text(f" {text} ".encode("utf-8", "surrogatepass")).tolist():
            for form in sorted(_forms(self.keys[number].as_py()), key=len, reverse=True):
                text = text.replace(form.decode("utf-8", "surrogatepass"), name_of(number))
        return text

    def _endings(self, data: bytes) -> Iterator[tuple[int, np.uint64]]:
        """(where it ends, the last eight bytes) wherever a key may stand."""
        if not len(self._needles.endings):
            return
        for shift in range(min(_WORD_BYTES, max(len(data) - _WORD_BYTES + 1, 0))):
            words = np.frombuffer(data, "<u8", (len(data) - shift) // _WORD_BYTES, shift)
            may = np.flatnonzero(self._needles.may_end[_spread(words)])
            at = np.searchsorted(self._needles.endings, words[may])
            at[at == len(self._needles.endings)] = 0
            for place in may[self._needles.endings[at] == words[may]]:
                yield shift + (int(place) + 1) * _WORD_BYTES, words[place]


def _forms(key: str) -> set[bytes]:
    """How a key is written: as itself, in JSON, in a URL or the path of a partition."""
    written = (key, json.dumps(key)[1:-1], json.dumps(key, ensure_ascii=False)[1:-1], quote(key, safe=""))
    return {text.encode("utf-8", "surrogatepass") for text in written}


def _stands_at(data: bytes, end: int, needle: bytes) -> bool:
    start = end - len(needle)
    if start < 0 or data[start:end] != needle:
        return False
    before, behind = data[start - 1 : start], data[end : end + 1]
    has_length = bool(before) and before[0] in _lengths(len(needle))
    return has_length or not (_is_word(before) or _is_word(behind))


def _lengths(length: int) -> frozenset[int]:
    """The byte before a text of this length: the last one of a length in Avro, in Thrift, and in Java."""
    return frozenset({_last_of_varint(2 * length), _last_of_varint(length), length & 0xFF})


def _last_of_varint(number: int) -> int:
    while number > 0x7F:
        number >>= 7
    return number


def _is_word(byte: bytes) -> bool:
    return bool(byte) and (byte.isalnum() or byte in b"_-" or byte[0] > 0x7F)


def _spread(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    return (words * _SPREAD) >> np.uint64(64 - _FILTER_BITS)
