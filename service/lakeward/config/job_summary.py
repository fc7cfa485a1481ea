"""What a job did, in a few words: the same on pages, in events and on the command line.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lakeward.base.quantities import format_number, format_size


def summarise_job(figures: Mapping[str, Any], *, size: Callable[[float], str] = format_size) -> str:
    """Only what there is; empty for a job without figures. They are those of `JobRecord`, and a release that knows
    others may have written them. `size` says how bytes are written."""

    def of(name: str) -> float:
        return float(figures.get(name) or 0)

    parts = []
    for operations, kind in ((of("full_operations"), "FULL"), (of("log_operations"), "LOG")):
        if operations:
            parts.append(f"{format_number(operations)} {kind}")
    if of("log_files"):
        parts.append(f"{format_number(of('log_files'))} logs of {size(of('log_bytes'))} merged")
    if of("written_bytes"):
        parts.append(f"{size(of('read_bytes'))} read, {size(of('written_bytes'))} written")
    if of("rows_written"):
        parts.append(f"{format_number(of('rows_written'))} rows")
    if of("writes_rolled_back"):
        parts.append(f"{format_number(of('writes_rolled_back'))} writes rolled back")
    if of("files_deleted"):
        freed = f" of {size(of('bytes_deleted'))}" if of("bytes_deleted") else ""
        parts.append(f"{format_number(of('files_deleted'))} files{freed} deleted")
    if of("instants_archived"):
        parts.append(f"{format_number(of('instants_archived'))} instants archived")
    if of("index_commits"):
        parts.append(f"{format_number(of('index_commits'))} commits indexed")
    if of("index_keys_verified"):
        wrong = f", {format_number(of('index_keys_wrong'))} wrong" if of("index_keys_wrong") else ", all right"
        parts.append(f"{format_number(of('index_keys_verified'))} keys of indexes checked{wrong}")
    if of("tee_keys_compared"):
        wrong = f", {format_number(of('tee_keys_wrong'))} wrong" if of("tee_keys_wrong") else ", all right"
        parts.append(f"{format_number(of('tee_keys_compared'))} keys of two indexes compared{wrong}")
    if of("groups_verified"):
        wrong = f", {format_number(of('groups_mismatched'))} wrong" if of("groups_mismatched") else ", all right"
        parts.append(f"{format_number(of('groups_verified'))} file groups checked{wrong}")
    if of("spark_jobs"):
        parts.append("on Spark")
    if of("peak_memory_bytes"):
        parts.append(f"peak {size(of('peak_memory_bytes'))}")
    return " · ".join(parts)
