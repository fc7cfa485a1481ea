"""The record index against the rows, both ways: a row's key leads to its file group, and a key leads to a row.

Where each partition of the data has a record index of its own, a key is looked up in that of its partition, and may be
in several.

Touches: reads base files' keys, merges slices where there are logs (`index/placed_keys`), reads the metadata table.
Keeps:   what was compacted, replaced or cleaned since the view was taken is passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from itertools import islice

import pyarrow as pa

from lakeward.base.named_key import plain_key
from lakeward.format.metadata.partition import RECORD_INDEX
from lakeward.format.metadata.record import RecordIndexRecord
from lakeward.index.placed_keys import PLACED_KEYS, JudgedIndex, RowTruth, also_in, judge_by_rows, not_in, place_keys
from lakeward.services.verification.check_report import Problem, metadata_remedy
from lakeward.services.verification.metadata_view import MetadataView
from lakeward.table.file_system_view import GroupId

Entries = Mapping[GroupId, Collection[str]]
"""Record keys by the file group that the index says they are in."""


def check_rows_in_index(
    view: MetadataView, sample: Mapping[str, Collection[str]], *, on_note: Callable[[str], None]
) -> list[Problem]:
    """Each key of a base file leads to its group, unless the group's logs took the row away.

    Args:
        sample: some keys of base files, by path.
        on_note: called with what cannot be known.
    """
    bases = view.base_files
    problems: list[Problem] = []
    for path, keys in sample.items():
        base = bases.get(path)
        if base is None:
            continue  # compacted or replaced meanwhile
        group = (path.rpartition("/")[0], base.file_id)
        said = _said(view, group[0], keys)
        suspects = not_in(place_keys({group: keys}), said)
        if suspects.num_rows:
            problems += _problems(JudgedIndex(missed=_judged(view, suspects, on_note).there, said=said))
    return problems


def first_entries(view: MetadataView, *, keys: int, groups: int | None) -> Entries:
    """The record index does not let itself be sampled without being read; so these are its first ones.

    Args:
        groups: of no more file groups than these; None for as many as there are.
    """
    found: dict[GroupId, list[str]] = {}
    for key, record in islice(view.reader.scan(RECORD_INDEX), keys):
        if isinstance(record, RecordIndexRecord):
            found.setdefault((record.partition or "", record.file_id), []).append(key)
    return {group: found[group] for group in sorted(found)[:groups]}


def check_index_in_rows(view: MetadataView, entries: Entries, *, on_note: Callable[[str], None]) -> list[Problem]:
    """Each key has a row in its file group, unless its entry has changed since."""
    said = [_said(view, group[0], keys) for group, keys in entries.items()]
    current = also_in(place_keys(entries), pa.concat_tables([PLACED_KEYS.empty_table(), *said]))
    return _problems(JudgedIndex(false=_judged(view, current, on_note).gone))


def _judged(view: MetadataView, placed: pa.Table, on_note: Callable[[str], None]) -> RowTruth:
    truth = judge_by_rows(view.storage, view.snapshot, placed, meter=view.meter)
    for note in truth.notes:
        on_note(note)
    return truth


def _said(view: MetadataView, partition_path: str, keys: Collection[str]) -> pa.Table:
    """The places that the index of a partition has for keys."""
    is_partitioned = view.definitions.is_partitioned_record_index
    found = view.reader.lookup(RECORD_INDEX, keys, data_partition=partition_path if is_partitioned else None)
    placed: dict[GroupId, list[str]] = {}
    for key, record in found.items():
        if isinstance(record, RecordIndexRecord):
            placed.setdefault((record.partition or "", record.file_id), []).append(key)
    return place_keys(placed)


def _problems(judged: JudgedIndex) -> list[Problem]:
    return [
        Problem(
            RECORD_INDEX,
            plain_key(fault.key),
            f"{fault.what[:1].upper()}{fault.what[1:]}",
            metadata_remedy(RECORD_INDEX),
        )
        for fault in judged.faults()
    ]
