"""What a table of version 10 holds by the second reader, which shares nothing with the service but the listing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lakeward.format.file_name import NativeLogName
from tests import native_log_judge as judge
from tests.our_reader import scan


def judged_rows(base: Path) -> Iterator[judge.Row]:
    """The rows of the newest slices; their logs are all native, and each file of the layout lsm_tree is sorted."""
    snapshot = scan(base)
    by_event_time = snapshot.config.merge_mode == "EVENT_TIME_ORDERING"
    ordering = list(snapshot.config.ordering_fields) if by_event_time else []
    for slice_ in snapshot.latest_slices:
        assert all(isinstance(log.name, NativeLogName) for log in slice_.log_files)
        logs = {log.name.text: (base / log.path).read_bytes() for log in slice_.log_files}
        bases = [judge.rows((base / file.path).read_bytes()) for file in (slice_.base_file,) if file is not None]
        lsm = snapshot.config.is_lsm_tree
        for rows in (*bases, *(judge.rows(data) for data in logs.values())) if lsm else ():
            keys = [row[judge.KEY].encode() for row in rows]
            assert keys == sorted({*keys})
        yield from judge.merged((row for rows in bases for row in rows), logs, ordering, lsm=lsm).values()


def judged_values(base: Path) -> dict[str, Any]:
    """The column `v` by key, of which no two rows have one."""
    rows = list(judged_rows(base))
    found = {row[judge.KEY]: row["v"] for row in rows}
    assert len(found) == len(rows)
    return found
