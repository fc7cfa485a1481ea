"""The rules of the archiver are cases in `archiving.cases`; here they are run, and what holds for all of them."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from lakeward.format.timeline.instant import Instant, State, instant_file_name, parse_instant
from lakeward.services.archive.plan.archive_plan import ArchiveFacts, ArchivePlan, KeptFor, plan_archive
from lakeward.services.archive.plan.hudi_archiver_keys import ArchiveOptions
from lakeward.table.timeline.cleans import Clean
from lakeward.table.timeline.timeline import Timeline
from tests.runs import runs

CASES = Path(__file__).with_name("archiving.cases")

ERA = "202601010000000"
"""Completes the two digits of a case to an instant time."""


@dataclass
class Table:
    instants: list[Instant] = field(default_factory=list)
    options: ArchiveOptions = field(default_factory=lambda: ArchiveOptions(commits_cleaned=1))
    cleans: list[Clean] = field(default_factory=list)
    replaced_left: dict[str, int] = field(default_factory=dict)
    uncommitted: list[tuple[str, str]] = field(default_factory=list)
    in_history: list[str] = field(default_factory=list)
    incomplete: list[str] = field(default_factory=list)
    metadata: str = ""
    table_begins: str | None = None
    is_merge_on_read: bool = False

    def read(self, line: str) -> None:
        match line.split():
            case ["keep", fewest, most, *cleaned]:
                self.options = ArchiveOptions(int(fewest), int(most), int((cleaned or ["1"])[0]))
            case ["merge", "on", "read"]:
                self.is_merge_on_read = True
            case ["cleaned", time, earliest]:
                self.cleans.append(Clean(ERA + time, True, "" if earliest == "-" else ERA + earliest))
            case ["metadata", time]:
                self.metadata = time
            case ["table", "begins", time]:
                self.table_begins = ERA + time
            case ["left", time, number]:
                self.replaced_left[ERA + time] = int(number)
            case ["uncommitted", time]:
                self.uncommitted.append((ERA + time, f"p/{time}"))
            case ["in", "history", times, action]:
                self.in_history.append(named(times, action).file_name)
            case ["incomplete", times, action]:
                self.incomplete.append(named(times, action).file_name)
            case [times, action]:
                self.add(times, action)
            case _:
                raise AssertionError(line)

    def add(self, times: str, action: str) -> None:
        self.instants.append(named(times, action))

    def plan(self) -> ArchivePlan:
        facts = ArchiveFacts(
            is_merge_on_read=self.is_merge_on_read,
            cleans=self.cleans,
            has_metadata_table=bool(self.metadata),
            metadata_compacted=None if self.metadata in ("", "-") else ERA + self.metadata,
            replaced_left=self.replaced_left,
            uncommitted=self.uncommitted,
            in_history=self.in_history,
            incomplete=self.incomplete,
            table_begins=self.table_begins,
        )
        return plan_archive(Timeline(tuple(self.instants)), facts, self.options)


def named(times: str, action: str) -> Instant:
    requested, _, completed = times.partition("-")
    action, _, state = action.partition(".")
    at = State[state.upper()] if state else State.COMPLETED
    name = instant_file_name(ERA + requested, action, at, 2, ERA + completed if completed else None)
    instant = parse_instant(name, 2)
    assert instant is not None
    return instant


def answer(text: str) -> str:
    table = Table()
    for line in text.splitlines():
        table.read(line)
    plan = table.plan()
    gone = " ".join(f"{i.time[-2:]} {i.action}" for i in plan.archived)
    if not plan.is_due:
        due = f"not due: {plan.commits} commits, of {table.options.commits_min} to {table.options.commits_max}"
        return f"archived: {gone}\n{due}" if gone else due
    kept = [f"from {limit.instant[-2:]} {limit.reason}: {limit.why.replace(ERA, '')}" for limit in plan.limits]
    blocked = [f"blocked by {plan.blocked_by.reason}"] if plan.blocked_by else []
    return "\n".join([f"archived: {gone or '(nothing)'}", *kept, *blocked])


def read_cases() -> tuple[str, list[tuple[str, str, str]]]:
    head, *blocks = CASES.read_text().split("\n== ")
    cases = []
    for block in blocks:
        rule, _, rest = block.partition("\n")
        table, _, expected = rest.partition("----\n")
        cases.append((rule, table.strip(), expected.strip()))
    return head, cases


def test_the_rules() -> None:
    """Each case of `archiving.cases` is answered as it says. Keeps 2 of services/archive/plan/archive_plan."""
    head, cases = read_cases()
    if os.environ.get("LAKEWARD_REWRITE_CASES"):
        written = [f"\n== {rule}\n{table}\n----\n{answer(table)}\n" for rule, table, _ in cases]
        CASES.write_text(head + "".join(written))
    for rule, table, expected in read_cases()[1]:
        assert answer(table) == expected, rule


@pytest.mark.parametrize("seed", range(runs(40)))
def test_what_goes_is_contiguous(seed: int) -> None:
    """No commit goes while an older one stays, and none at or after any limit. Keeps 1 and 2 of
    services/archive/plan/archive_plan."""
    random = Random(seed)
    table = Table(options=ArchiveOptions(2, 4, random.randint(1, 5), random.randint(1, 4)))
    table.is_merge_on_read = random.random() < 0.5
    for time in range(10, 10 + random.randint(5, 40)):
        action = random.choice(["commit", "deltacommit", "deltacommit", "replacecommit", "clean", "rollback"])
        state = random.choices(["", ".requested", ".inflight"], [30, 1, 1])[0]
        table.add(f"{time}-{time + random.randint(0, 3)}" if not state else f"{time}", action + state)
        if action == "replacecommit" and random.random() < 0.2:
            table.replaced_left[f"{ERA}{time}"] = 1
        if random.random() < 0.03:
            table.uncommitted.append((f"{ERA}{time}", "f"))
    table.metadata = random.choice(["", "", "-", str(random.randint(10, 60))])
    plan = table.plan()

    gone = {instant.time for instant in plan.archived}
    commits = [instant.time for instant in Timeline(tuple(table.instants)).completed_writes]
    left = [time for time in commits if time not in gone]
    assert commits == [time for time in commits if time in gone] + left
    assert len(left) >= min(table.options.commits_min, len(commits))
    for limit in plan.limits:
        assert all(time < limit.instant for time in gone), (seed, limit)
    if plan.blocked_by is not None:
        assert plan.blocked_by.reason is not KeptFor.MIN_COMMITS
    assert [i.time for i in plan.archived] == sorted(gone)
