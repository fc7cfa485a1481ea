"""The record index against the rows, both ways: a row's key leads to its file group, and a key leads to a row.

Where each partition of the data has a record index of its own, a key is looked up in that of its partition, and may be
in several.

Touches: reads base files' keys, merges slices where there are logs (`read/row_lookup.py`), reads the metadata table.
Keeps:   what was compacted, replaced or cleaned since the view was taken is passed over.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import islice

from lakeward.format.metadata.partition import RECORD_INDEX
from lakeward.format.metadata.record import MetadataRecord, RecordIndexRecord
from lakeward.read.row_lookup import find_rows
from lakeward.services.verification.check_report import Problem, metadata_remedy
from lakeward.services.verification.metadata_view import MetadataView
from lakeward.table.file_system_view import GroupId

Entries = Mapping[GroupId, Collection[str]]
"""Record keys by the file group that the index says they are in."""


def check_rows_in_index(view: MetadataView, sample: Mapping[str, Collection[str]]) -> list[Problem]:
    """Each key of a base file leads to its group, unless the group's logs took the row away.

    Args:
        sample: some keys of base files, by path.
    """
    bases = view.base_files
    suspects: dict[GroupId, dict[str, str]] = {}
    for path, keys in sample.items():
        base = bases.get(path)
        if base is None:
            continue  # compacted or replaced meanwhile
        partition_path = path.rpartition("/")[0]
        records = _lookup(view, partition_path, keys)
        for key in keys:
            if (what := _location_fault(records.get(key), partition_path, base.file_id)) is not None:
                suspects.setdefault((partition_path, base.file_id), {})[key] = what
    problems = []
    for group, faults in suspects.items():
        there = find_rows(view.storage, view.snapshot, group, faults, meter=view.meter)
        problems += [_problem(key, what) for key, what in faults.items() if there is not None and key in there]
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


def check_index_in_rows(view: MetadataView, entries: Entries) -> list[Problem]:
    """Each key has a row in its file group, unless its entry has changed since."""
    problems = []
    for group, keys in entries.items():
        records = _lookup(view, group[0], keys)
        current = {key for key, record in records.items() if _location_fault(record, *group) is None}
        there = find_rows(view.storage, view.snapshot, group, current, meter=view.meter)
        what = f"The record index says it is in {_spell(*group)}, and there is no such row"
        if there is not None:
            problems += [_problem(key, what) for key in keys if key in current and key not in there]
    return problems


def _lookup(view: MetadataView, partition_path: str, keys: Collection[str]) -> dict[str, MetadataRecord]:
    is_partitioned = view.definitions.is_partitioned_record_index
    return view.reader.lookup(RECORD_INDEX, keys, data_partition=partition_path if is_partitioned else None)


def _location_fault(record: object, partition_path: str, file_id: str) -> str | None:
    where = _spell(partition_path, file_id)
    if record is None:
        return f"Its row is in {where}, and the record index does not know it: writers insert it again"
    if not isinstance(record, RecordIndexRecord):
        return "Its record is of another kind"
    if (record.partition or "", record.file_id) != (partition_path, file_id):
        return f"Its row is in {where}, the record index says {_spell(record.partition or '', record.file_id)}"
    return None


def _spell(partition_path: str, file_id: str) -> str:
    return f"{partition_path or '(no partition)'}, {file_id}"


def _problem(key: str, what: str) -> Problem:
    return Problem(RECORD_INDEX, key, what, metadata_remedy(RECORD_INDEX))
