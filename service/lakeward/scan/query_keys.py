"""The record keys that the rows of a query must have, where the query says it: by name, or by equalities of its filter.

    keys by name                                            those
    _hoodie_record_key = 'k'                                that one, and `in` likewise
    a = 1 and b in ('x', 'y'), where a and b are the key    a:1,b:x and a:1,b:y
    a = 1 alone, where buckets are by a                     no keys, but a text that has the bucket of all such keys

Touches: nothing.
Keeps:   1. each row that the query chooses has a key among these, and lies in the bucket that one of the texts has;
         2. nothing is said of values whose text in a key may be another one: of other types than text and whole
            numbers, by key generators that are not known, under schema on read.
Source:  KeyGenUtils and BucketIndexSupport (Hudi 1.2.0)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Final

import pyarrow as pa

from lakeward.merge.rules.merge_rules import RECORD_KEY_FIELD
from lakeward.read.query.filter import FilterColumn, Membership, Node, Operator, ValueComparison, conjuncts
from lakeward.scan.record_keys import composite_key
from lakeward.table.file_system_view import GroupId
from lakeward.table.new_keys import KeyGeneratorKind, generator_of
from lakeward.table.table_config import TableConfig

KEYS_MAX: Final = 10_000
"""Keys that values of several fields may make."""


@dataclass(frozen=True, slots=True)
class QueryKeys:
    keys: tuple[str, ...] | None
    """Record keys; None where the filter says none."""
    in_buckets: tuple[str, ...] | None
    """Texts whose buckets hold all chosen rows; None where nothing is said of buckets."""


@dataclass(frozen=True, slots=True)
class KeyPlaces:
    """The places where rows of the keys may be."""

    keys: tuple[str, ...] | None
    """What the rows' keys are among; None where the filter says it of buckets alone."""
    groups: frozenset[GroupId] | None
    """None: in any file group."""
    notes: tuple[str, ...] = ()
    """What each index answered, or why it was not asked."""


def query_keys(
    named: tuple[str, ...] | None, where: Node | None, schema: pa.Schema, config: TableConfig, *, evolves: bool
) -> QueryKeys | None:
    """None where the query says nothing of keys.

    Args:
        named: keys that the query names.
        evolves: columns may have had other types: the table has schema on read.
    """
    if named is not None:
        return QueryKeys(named, named)
    if where is None:
        return None
    fields = config.record_key_fields
    values = _equalities(where)
    if (keys := values.get(RECORD_KEY_FIELD)) is not None:
        return QueryKeys(keys, keys)
    generator = generator_of(config)
    if not fields or evolves or generator is None:
        return None
    hashed = config.bucket_fields or fields
    if all(field in values for field in fields):
        keys = _keys_of(fields, values, generator)
        return None if keys is None else QueryKeys(keys, keys)
    # A text in the rest of the key may look like a value of the hashed field, which Hudi then hashes, too.
    others = [field for field in fields if field not in hashed]
    if all(field in values for field in hashed) and not any(_may_be_text(schema, field) for field in others):
        texts = _keys_of(tuple(field for field in fields if field in hashed), values, generator, ends=",:")
        return None if texts is None else QueryKeys(None, texts)
    return None


def _keys_of(
    fields: tuple[str, ...], values: dict[str, tuple[str, ...]], generator: KeyGeneratorKind, *, ends: str = ""
) -> tuple[str, ...] | None:
    """All keys of these values; None where they are too many."""
    if prod(len(values[field]) for field in fields) > KEYS_MAX:
        return None
    if len(fields) == 1 and not ends and generator is KeyGeneratorKind.COMPLEX:
        # Releases of Hudi differ in whether COMPLEX names a single field in its keys.
        return tuple(key for value in values[fields[0]] for key in (value, f"{fields[0]}:{value}"))
    found = (list(zip(fields, each, strict=True)) for each in product(*(values[field] for field in fields)))
    if ends:
        return tuple(",".join(f"{name}:{value or '__empty__'}" for name, value in each) + ends for each in found)
    return tuple(composite_key(each) for each in found)


def _equalities(where: Node) -> dict[str, tuple[str, ...]]:
    """The values that each column must have one of, as texts, where these are text or whole numbers."""
    found: dict[str, tuple[str, ...]] = {}
    for node in conjuncts(where):
        for column, values in _equality(node):
            texts = tuple(_texts(values))
            if len(texts) == len(values):
                found.setdefault(".".join(column.path), texts)
    return found


def _equality(node: Node) -> Iterator[tuple[FilterColumn, list[object]]]:
    if isinstance(node, ValueComparison) and node.operator is Operator.EQUAL:
        yield node.column, [node.value.as_py()]
    elif isinstance(node, Membership) and not node.is_negated:
        yield node.column, node.values.to_pylist()


def _texts(values: list[object]) -> Iterator[str]:
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, int) and not isinstance(value, bool):
            yield str(value)


def _may_be_text(schema: pa.Schema, field: str) -> bool:
    return field not in schema.names or not pa.types.is_integer(schema.field(field).type)
