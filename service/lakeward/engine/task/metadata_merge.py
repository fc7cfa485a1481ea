"""Merge one file slice of the metadata table into a new base file, as it runs in a task or in process.

    base file + logs --merged by keys--> an HFile in the attempt's folder --read back--> its digest is that of the merge

A slice that would be empty and had no base file gets none, as with Hudi. A task that wakes up after its attempt is over
finds no folder in a file system; in an object store it leaves a file in the folder, where no reader looks.

Touches: the slice's files, reading; one file in the attempt's folder.
Keeps:   1. a result is returned only for a file that reads back as what was merged, unless the operator waives that;
         2. memory is bounded by one block for each file of the slice, and its small logs whole.
"""

from __future__ import annotations

import time

from lakeward.base.paths import join
from lakeward.engine.task.metadata_merge_spec import MergedMetadata, MetadataMergeSpec
from lakeward.engine.task.peak_memory import use_tight_pool
from lakeward.engine.task.work_counters import WorkMeter
from lakeward.format.metadata.base_file import check_written, write_metadata_base_file
from lakeward.storage.storage import Storage
from lakeward.table.metadata.metadata_reader import SliceReader


def merge_metadata_slice(storage: Storage, spec: MetadataMergeSpec, task_attempt: int) -> MergedMetadata | None:
    """None where there is no file. Raises `VerificationFailed`, and what reading raises."""
    use_tight_pool()
    started = time.monotonic()
    meter = WorkMeter(spec.counters, read_bytes_max=spec.input_bytes)
    reader = SliceReader(meter.reading(storage), spec.base_path, spec.valid_instants)
    name = spec.file_name(task_attempt)
    path = join(spec.folder, name)
    with storage.open_output(path) as sink:
        written = write_metadata_base_file(
            meter.writing(sink),
            schema_json=spec.schema_json,
            entries=reader.compacted(spec.slice, spec.schema_json),
            keys_expected=reader.entry_count_max(spec.slice),
        )
    if not written.entries and spec.slice.base_file is None:
        storage.delete(path)
        return None
    if spec.verify:
        with meter.checking(storage).open_input(path) as source:
            check_written(source, written, path, file_group=spec.slice.group_id)
    meter.finish()
    milliseconds = int((time.monotonic() - started) * 1000)
    return MergedMetadata(name, written.entries, written.size_bytes, milliseconds)
