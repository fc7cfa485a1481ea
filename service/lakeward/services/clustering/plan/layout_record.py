"""A clustering's commit records of each file group that it made which columns brought its rows together, and its size.
Later runs leave a group alone while its record is true.

    "lakeward.layout": {"columns": ["city"], "mode": "hybrid",
                        "groups": {"<partition>": {"<file id>": {"bytes": 1234, "ranges": [["a", "f"]]}}}}

An undo brings groups back that had several layouts, and records a list of these.

Touches: nothing.
Keeps:   a text that is not such a record counts as none: its groups are clustered again, which harms nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lakeward.services.clustering.plan.layout import ClusterMode, Layout
from lakeward.table.file_system_view import GroupId

PACKED_KEY = "lakeward.packed"
"""Entry of the commit: how many file groups became how many."""
LAYOUT_KEY = "lakeward.layout"
"""Entry of the commit."""
_TEXT_MAX = 64


@dataclass(frozen=True, slots=True)
class LayoutRecord:
    group_id: GroupId
    layout: Layout
    bytes: int
    """Bytes of its file when it was written."""
    ranges: tuple[tuple[str | None, str | None], ...]
    """The least and the largest value of each column, as text, cut after some characters."""


def bound_text(value: object) -> str | None:
    return None if value is None else str(value)[:_TEXT_MAX]


def write_records(records: Iterable[LayoutRecord]) -> str:
    layouts: dict[Layout, dict[str, dict[str, Any]]] = {}
    for each in records:
        path, file_id = each.group_id
        groups = layouts.setdefault(each.layout, {})
        groups.setdefault(path, {})[file_id] = {"bytes": each.bytes, "ranges": each.ranges}
    said = [{"columns": of.columns, "mode": of.mode, "groups": groups} for of, groups in layouts.items()]
    return json.dumps(said[0] if len(said) == 1 else said, separators=(",", ":"))


def read_records(text: str) -> Mapping[GroupId, LayoutRecord]:
    try:
        said = json.loads(text)
        return {each.group_id: each for of in (said if isinstance(said, list) else [said]) for each in _read(of)}
    except (ValueError, TypeError, KeyError, AttributeError):
        return {}


def _read(said: Any) -> Iterator[LayoutRecord]:
    layout = Layout(ClusterMode(said["mode"]), tuple(map(str, said["columns"])))
    for path, groups in said["groups"].items():
        for file_id, group in groups.items():
            ranges = tuple((least, largest) for least, largest in group["ranges"])
            yield LayoutRecord((path, file_id), layout, int(group["bytes"]), ranges)
