"""The keys of secondary indexes, of whole batches: `key.secondary_index_key` for arrays.

Touches: nothing.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

_NULL: Final = "\0"
_ESCAPED: Final = ("\\", "$", _NULL)


def secondary_index_keys(keys: pa.Array, values: pa.Array) -> pa.StringArray:
    """
    Args:
        keys: record keys.
        values: text, maybe in a dictionary, or whole numbers.
    """
    text = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
    text = pc.fill_null(_escape(text.cast(pa.string())), _NULL)
    return pc.binary_join_element_wise(text, _escape(keys.cast(pa.string())), "$")


def _escape(text: pa.Array) -> pa.Array:
    for character in _ESCAPED:
        text = pc.replace_substring(text, character, "\\" + character)
    return text
