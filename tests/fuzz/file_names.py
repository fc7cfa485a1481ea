"""Names: what is parsed gives the same name back, and what is let through stays below the table."""

from __future__ import annotations

import contextlib
import posixpath
from datetime import UTC

from lakeward.base.errors import LakewardError
from lakeward.format.file_name import (
    check_relative_path,
    is_native_log,
    parse_base_file,
    parse_log_file,
    parse_native_log,
    resolve,
)
from lakeward.format.partition_metadata import is_partition_metadata
from lakeward.format.timeline.instant import comparable_time, instant_file_name, parse_instant, parse_instant_time

_FILE_ID = "ebf517f7-02cc-4e03-aec7-b7450919b7fd-0"


def corpus() -> list[bytes]:
    names = [
        f"{_FILE_ID}_0-0-0_20261121043703223.parquet",
        f"{_FILE_ID}_0-0-0_20261121043703223.hfile",
        f".{_FILE_ID}_20261121043706178.log.1_0-15-11",
        f".{_FILE_ID}_20261121043706178.log.12_0-15-11.cdc",
        f".{_FILE_ID}_20261121043706178.log.1",
        f"{_FILE_ID}_0-15-11_20261121043706178_1.log.parquet",
        f"{_FILE_ID}_0-15-11_20261121043706178_1.deletes.hfile",
        f"{_FILE_ID}_0-15-11_20261121043706178_1.delete.parquet",
        f"a=1/b=%2F/ü/{_FILE_ID}_0-0-0_20261121043703223.parquet",
        "20261121043710038.compaction.requested",
        "20261121043703223.inflight",
        "20261121043703223_20261121043705979.commit",
        "20261121043703.deltacommit",
        "../../etc/passwd",
        ".hoodie/timeline",
        ".hoodie_partition_metadata",
    ]
    return [name.encode() for name in names]


def one_input(data: bytes) -> None:
    name = data.decode("utf-8", "surrogateescape")
    is_partition_metadata(name)
    for extension in ("parquet", "hfile"):
        base = parse_base_file(name, extension=extension)
        assert base is None or base.text == name
    log = parse_log_file(name)
    assert log is None or (log.text == name and log.sort_key)
    native = parse_native_log(name)
    assert native is None or (native.text == name and native.sort_key and is_native_log(name) is not native.is_early)
    assert native is None or not (log or any(parse_base_file(name, extension=kind) for kind in ("parquet", "hfile")))
    for layout in (1, 2):
        instant = parse_instant(name, layout)
        if instant is not None:
            assert instant.file_name == name
            if layout == 1 or instant.state.value != "completed" or instant.completion_time:
                again = instant_file_name(instant.time, instant.action, instant.state, layout, instant.completion_time)
                assert again == name
            comparable_time(instant.time)
            with contextlib.suppress(LakewardError):
                parse_instant_time(instant.time, UTC)
    with contextlib.suppress(LakewardError):
        assert posixpath.normpath(f"/t/{check_relative_path(name)}").startswith("/t")
        name.encode()  # and can be written down
    with contextlib.suppress(LakewardError):
        found = resolve("/t", name)
        assert posixpath.normpath(found) == found and found.startswith("/t/") and not found.startswith("/t/.hoodie/")
