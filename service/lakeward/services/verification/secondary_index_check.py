"""A secondary index against the rows: what a row holds in the indexed column leads to its record key.

Only that way round: an entry without such a row makes a query look into a file for nothing, and it filters what it
reads. Values whose text is Java's own, of floating point and times, are not compared.

Touches: reads base files, merges slices where there are logs (`read/row_lookup.py`), reads the metadata table.
Keeps:   what was compacted, replaced or cleaned since the view was taken is passed over.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from lakeward.base.errors import Unsupported
from lakeward.format.metadata.key import secondary_index_key
from lakeward.format.metadata.record import SecondaryIndexRecord
from lakeward.read.row_lookup import find_values
from lakeward.services.verification.check_report import Problem, metadata_remedy
from lakeward.services.verification.metadata_view import MetadataView


def check_secondary_index(view: MetadataView, name: str, sample: Mapping[str, Collection[str]]) -> list[Problem]:
    """Raises `Unsupported` for an index whose values cannot be compared.

    Args:
        name: of the index, which is that of its partition.
        sample: some keys of base files, by path.
    """
    column = _column(view, name)
    bases = view.base_files
    problems = []
    for path, keys in sample.items():
        base = bases.get(path)
        if base is None:
            continue  # compacted or replaced meanwhile
        group = path.rpartition("/")[0], base.file_id
        values = find_values(view.storage, view.snapshot, group, keys, column, meter=view.meter)
        wanted = {secondary_index_key(_text(value, name), key): key for key, value in (values or {}).items()}
        found = view.reader.lookup(name, wanted)
        for index_key, key in wanted.items():
            if not isinstance(found.get(index_key), SecondaryIndexRecord):
                told = f"{column} = {(values or {})[key]!r}"
                what = f"Its row has {told}, and the index does not know it: queries for that value miss the row"
                problems.append(Problem(name, key, what, metadata_remedy(name)))
    return problems


def _column(view: MetadataView, name: str) -> str:
    definition = view.definitions.by_name.get(name)
    if definition is None or len(definition.source_fields) != 1:
        raise Unsupported(f"{name} was not checked.", why="Its definition does not name one column.")
    return definition.source_fields[0]


def _text(value: object, name: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise Unsupported(f"{name} was not checked.", why=f"How Hudi writes a {type(value).__name__} in it is not known.")
