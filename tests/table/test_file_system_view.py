"""The view's rules are cases in `file_system_view.cases`; here they are run, and what text cannot say is tested."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lakeward.format.file_name import AnyLogName, LogFileName, parse_any_log
from lakeward.format.timeline.instant import Instant, State, instant_file_name, parse_instant
from lakeward.storage.storage import FileStatus
from lakeward.table.file_system_view import (
    FileSystemView,
    _History,
    archived_instants,
    build_file_groups,
    sort_files,
)
from lakeward.table.timeline.timeline import Timeline

CASES = Path(__file__).with_name("file_system_view.cases")

ERA = "202601010000000"
"""Completes the two digits of a case to an instant time."""


@dataclass(frozen=True)
class Case:
    rule: str
    table: str
    expected: str


def read_cases() -> tuple[str, list[Case]]:
    head, *blocks = CASES.read_text().split("\n== ")
    cases = []
    for block in blocks:
        rule, _, rest = block.partition("\n")
        table, _, expected = rest.partition("----\n")
        cases.append(Case(rule, table.strip(), expected.strip()))
    return head, cases


def build(text: str) -> FileSystemView:
    layout = 2
    native = False
    instants: list[Instant] = []
    files: list[FileStatus] = []
    archived: dict[str, str] = {}
    plans: dict[tuple[str, str], str] = {}
    replaced: dict[tuple[str, str], str] = {}
    for line in text.splitlines():
        match line.split():
            case ["layout", number]:
                layout = int(number)
            case ["archived", times]:
                requested, completed = times.split("-")
                archived[ERA + requested] = ERA + completed
            case ["base", group, time, *again]:
                files.append(file(f"{group}_{len(again)}-1-2_{ERA}{time}.parquet"))
            case ["log", group, time, *version]:
                number, _, suffix = (version or ["1"])[0].partition(".")
                files.append(file(f".{group}_{ERA}{time}.log.{number}_0-1-2{suffix and '.' + suffix}"))
            case ["native", group, time, kind, *version]:
                native = True
                files.append(file(f"{group}_0-1-2_{ERA}{time}_{(version or ['1'])[0]}.{kind}.parquet"))
            case ["plan", group, time]:
                plans["p", group] = ERA + time
            case ["replaced", group, time]:
                replaced["p", group] = ERA + time
            case [times, action]:
                instants.extend(read_instant(times, action, layout))
            case _:
                raise AssertionError(f"no such line in a case: {line!r}")
    partition = sort_files("p", files, native=native)
    timeline = Timeline(tuple(instants))
    assert layout == 1 or archived.keys() <= archived_instants([partition], timeline)
    return build_file_groups(
        [partition], timeline, layout=layout, archived=archived, pending_compactions=plans, replaced=replaced
    )


def read_instant(times: str, action: str, layout: int) -> Iterator[Instant]:
    requested, _, completed = times.partition("-")
    action, _, state = action.partition(".")
    if completed == "?":
        yield Instant(ERA + requested, action, State.COMPLETED, None, f"{ERA}{requested}.{action}")
        return
    # A savepoint completes at once; the cases do not bother to say when.
    completed = ERA + (completed or requested) if layout == 2 and not state else None
    name = instant_file_name(ERA + requested, action, State(state or "completed"), layout, completed)
    instant = parse_instant(name, layout)
    assert instant is not None, name
    yield instant


def file(name: str) -> FileStatus:
    return FileStatus(f"/table/p/{name}", 100, 0.0, False)


def as_text(view: FileSystemView) -> str:
    lines = []
    for group in view.groups:
        for slice_ in group.slices:
            base = short(slice_.base_file.instant) if slice_.base_file else "-"
            logs = " ".join(
                short(log.instant) + (f".{log.name.version}" if log.name.version > 1 else "") + ending(log.name)
                for log in slice_.log_files
            )
            lines.append(f"{group.file_id} {short(slice_.base_instant)}: base {base}, logs {logs or '-'}")
    lines += [f"frozen {group.file_id} at {short(group.instant)}" for group in view.frozen]
    for path in view.uncommitted:
        name = path.removeprefix("p/")
        kind = "base" if parse_any_log(name, native=True) is None else "log"
        group = name.lstrip(".").partition("_")[0]
        lines.append(f"hidden {kind} {group} t{name.partition(ERA)[2][:2]}")
    return "\n".join(lines)


def ending(name: AnyLogName) -> str:
    return name.suffix if isinstance(name, LogFileName) else f":{name.kind}"


def short(instant: str) -> str:
    assert instant.startswith(ERA)
    return "t" + instant.removeprefix(ERA)


@pytest.mark.parametrize("case", read_cases()[1], ids=lambda case: case.rule)
def test_case(case: Case) -> None:
    """The rule that the case is named for."""
    assert as_text(build(case.table)) == case.expected


def test_logs_by_their_own_instants_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hudi's issue 7969: a view that puts a log where its writer began leaves it to the slice before the compaction,
    whose plan does not name it, and so it is never merged."""
    (case,) = (case for case in read_cases()[1] if "7969" in case.rule)
    assert "g t30: base t30, logs t20" in as_text(build(case.table))

    def began(history: _History, instant: str) -> str | None:
        return instant if history.is_completed(instant) else None

    monkeypatch.setattr(_History, "completion_time", began)
    assert "g t30: base t30, logs -" in as_text(build(case.table))


def test_cases_are_written_as_the_code_would_write_them() -> None:
    """The file of cases is exactly what LAKEWARD_REWRITE_CASES=1 makes of it, so a rewrite shows only what changed."""
    head, cases = read_cases()
    blocks = [f"== {case.rule}\n{case.table}\n----\n{as_text(build(case.table))}\n" for case in cases]
    written = "\n".join([head.rstrip("\n") + "\n", *blocks])
    if "LAKEWARD_REWRITE_CASES" in os.environ:
        CASES.write_text(written)
    assert CASES.read_text() == written


def test_every_committed_file_has_one_place() -> None:
    """A file is in one slice, or hidden, or in a frozen group: never in two places, never nowhere."""
    for case in read_cases()[1]:
        view = build(case.table)
        placed = [
            file.path
            for group in view.groups
            for slice_ in group.slices
            for file in (slice_.base_file, *slice_.log_files)
            if file is not None
        ]
        assert len(placed) == len(set(placed)), case.rule
        assert not set(placed) & set(view.uncommitted), case.rule
        lost = {"g"} if "replaced g" in case.table else {group.file_id for group in view.frozen}
        groups_of_files = [
            line.split()[:2] for line in case.table.splitlines() if line.startswith(("base ", "log ", "native "))
        ]
        expected = [group for _, group in groups_of_files if group not in lost]
        hidden = [p for p in view.uncommitted if p.removeprefix("p/").lstrip(".").partition("_")[0] not in lost]
        assert len(placed) + len(hidden) == len(expected), case.rule


def test_names_that_fit_no_grammar_are_reported() -> None:
    """What Hudi would take for a base file and is none is in no slice, and is named."""
    files = [file("g_0-1-2_20260101000000010.parquet.tmp"), file(".x.parquet.crc"), file("_SUCCESS")]

    sorted_files = sort_files("p", [*files, file(".hoodie_partition_metadata.parquet")])

    assert sorted_files.unrecognised == ("p/g_0-1-2_20260101000000010.parquet.tmp",)
    assert sorted_files.base_files == sorted_files.log_files == ()


def test_native_logs_are_logs_where_the_version_has_them() -> None:
    """In any other table they are reported, whatever their kind, and a version with zeros in front in all tables: Hudi
    reads it as a number. Keeps 3 of table/file_system_view."""
    ends = ["1.log.parquet", "1.deletes.parquet", "1.cdc.parquet", "1.log.lance"]
    files = [file(f"g_0-1-2_{ERA}20_{end}") for end in [*ends, "01.log.parquet"]]
    old, new = (sort_files("p", files, native=native) for native in (False, True))
    assert (old.log_files, len(old.unrecognised)) == ((), 5)
    assert [log.file_name.rpartition("_")[2] for log in new.log_files] == ends
    assert new.unrecognised == (f"p/g_0-1-2_{ERA}20_01.log.parquet",)
    assert not old.base_files and not new.base_files
