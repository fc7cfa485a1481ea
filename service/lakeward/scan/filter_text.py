"""A filter from its text. What the words mean says `scan/filter_grammar`, which loads a parser of SQL: a read without a
filter does without it.

Touches: nothing.
"""

from __future__ import annotations

import pyarrow as pa

from lakeward.read.query.filter import Node


def parse_filter(text: str, schema: pa.Schema) -> Node:
    """The filter of a text.

    Raises `UsageError`.

    Args:
        schema: the columns that it may name, meta columns too.
    """
    from lakeward.scan.filter_grammar import filter_of

    return filter_of(text, schema)
