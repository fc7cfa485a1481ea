"""Planner cases as text: a table and options in, the decision of every file group out. `hybrid_compaction.cases`
says how they are written."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lakeward.base.quantities import parse_duration, parse_size
from lakeward.format.timeline.instant import Instant, State
from lakeward.services.compaction.plan.decision import Choice, Form, PlanOutcome, Reason
from lakeward.services.compaction.plan.explain import explain
from lakeward.services.compaction.plan.hybrid_options import HybridOptions
from lakeward.services.compaction.plan.planner import HybridCompactionPlanGenerator
from lakeward.services.compaction.plan.read_rates import ReadRates, parse_rates
from lakeward.services.compaction.plan.selection import GroupFilter, Selection, parse_strategies
from lakeward.services.compaction.plan.trigger import Trigger, TriggerStrategy
from lakeward.table.file_group import FileGroup, FrozenGroup
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline.timeline_reader import LogCompaction, WriteProfile
from tests.synthetic_table import completed, file_group, log_compacted, minute, pending, snapshot_of

PENDING_MAPS = {
    "compaction": "pending_compactions",
    "logcompaction": "pending_log_compactions",
    "clustering": "pending_clusterings",
}
SIZES = {"small_base_size", "log_size_threshold", "small_log_size", "budget_bytes"}
NUMBERS = {"log_num_threshold": int, "log_ratio": float, "large_log_ratio": float}


@dataclass(frozen=True)
class Case:
    rule: str
    table: str
    expected: str


def read_cases(path: Path) -> tuple[str, list[Case]]:
    head, *blocks = path.read_text().split("\n== ")
    cases = []
    for block in blocks:
        rule, _, rest = block.partition("\n")
        table, _, expected = rest.partition("----\n")
        cases.append(Case(rule, table.strip(), expected.strip()))
    return head, cases


@dataclass
class Table:
    """What the lines of a case have said so far."""

    at: str = minute(60)
    properties: dict[str, str] = field(default_factory=dict)
    groups: list[FileGroup] = field(default_factory=list)
    instants: list[Instant] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    selection: dict[str, Any] = field(default_factory=dict)
    filters: dict[str, tuple[str, ...]] = field(default_factory=dict)
    fields: dict[str, Any] = field(default_factory=lambda: defaultdict(dict))
    frozen: list[FrozenGroup] = field(default_factory=list)
    excluded: dict[GroupId, Reason] = field(default_factory=dict)
    whole: set[GroupId] = field(default_factory=set)
    without_log: set[GroupId] = field(default_factory=set)

    def snapshot(self) -> TableSnapshot:
        return snapshot_of(
            self.groups,
            self.instants,
            properties=self.properties,
            **{name: dict(values) for name, values in self.fields.items()},
            frozen=tuple(self.frozen),
        )

    def hybrid_options(self) -> HybridOptions:
        return HybridOptions(groups=GroupFilter(**self.filters), selection=Selection(**self.selection), **self.options)

    def plan(self, shuffle: random.Random | None = None) -> PlanOutcome:
        if shuffle is not None:
            shuffle.shuffle(self.groups)
            shuffle.shuffle(self.frozen)
        generator = HybridCompactionPlanGenerator(self.hybrid_options())
        return generator.generate(
            self.snapshot(), at=self.at, excluded=self.excluded, whole=self.whole, without_log=self.without_log
        )


def read_table(text: str) -> Table:
    table = Table()
    for line in text.splitlines():
        read_line(table, line)
    return table


def read_line(table: Table, line: str) -> None:
    match line.replace(",", " ").split():
        case ["at", time]:
            table.at = instant(time)
        case ["version", number]:
            table.properties["hoodie.table.version"] = number
        case ["mode", mode]:
            table.properties["hoodie.record.merge.mode"] = f"{mode.upper()}_TIME_ORDERING"
        case ["property", key, value]:
            table.properties[key] = value
        case ["group", group, *files]:
            partition, file_id = split_group(group)
            base, logs, changes = read_files(files)
            table.groups.append(file_group(partition, file_id, base=base, logs=logs, changes=changes))
        case ["cdc"]:
            table.properties["hoodie.table.cdc.enabled"] = "true"
        case ["pending", action, time, *rest]:
            state = State.INFLIGHT
            if rest[:1] == ["requested"]:
                state = State.REQUESTED
                rest = rest[1:]
            table.instants += pending(instant(time), action, state)
            if action in PENDING_MAPS:
                for group in rest:
                    table.fields[PENDING_MAPS[action]][split_group(group)] = instant(time)
            elif rest:
                partitions = {word.removeprefix("into:") for word in rest if word.startswith("into:")}
                groups = {split_group(word) for word in rest if not word.startswith("into:")}
                profile = WriteProfile(frozenset(groups), frozenset(partitions))
                table.fields["write_profiles"][instant(time)] = profile
        case ["merged", group, time, "of", *sources]:
            group_id = split_group(group)
            table.instants += log_compacted(instant(time))
            names = frozenset(f".{group_id[1]}_{instant(source)}.log.1_0-0-0" for source in sources)
            known = table.fields["log_compactions"].get(group_id, ())
            ranks_last = "hoodie.table.storage.layout" in table.properties
            merged = LogCompaction(instant(time), names, ranks_last=ranks_last)
            table.fields["log_compactions"][group_id] = (*known, merged)
        case ["frozen", group, time]:
            table.frozen.append(FrozenGroup(*split_group(group), instant(time), "its newest file is unknown"))
        case ["nameless", group, time]:
            table.frozen.append(FrozenGroup(*split_group(group), instant(time), "no UTF-8", is_nameable=False))
        case ["excluded", group, reason]:
            table.excluded[split_group(group)] = Reason(reason)
        case ["whole", group]:
            table.whole.add(split_group(group))
        case ["without-log", group]:
            table.without_log.add(split_group(group))
        case ["sources", "retire"]:
            table.options["sources_retire"] = True
        case ["reads", *_]:
            table.options["reads"] = ReadRates(parse_rates(line.removeprefix("reads ")))
        case ["trigger", "table" | "group" as whose, strategy, commits, seconds]:
            trigger = Trigger(TriggerStrategy(strategy), int(commits), int(seconds))
            table.options[f"{whose}_trigger"] = trigger
        case ["form", form]:
            table.options["form"] = Form(form)
        case ["strategies", names]:
            table.selection["strategies"] = parse_strategies(names.replace("+", ","))
        case ["selection", name, value]:
            table.selection[name] = value if name == "partition_regex" else parse_size(value)
        case ["type", "full" | "log" as kind]:
            table.options["only"] = Choice(kind.upper())
        case ["objective", duration]:
            table.options["objective"] = parse_duration(duration)
        case ["only" | "not" | "id" as word, *patterns]:
            names = {"only": "partitions", "not": "excluded_partitions", "id": "file_groups"}
            table.filters[names[word]] = tuple(patterns)
        case [name, value] if name in SIZES:
            table.options[name] = parse_size(value)
        case [name, value] if name in NUMBERS:
            table.options[name] = NUMBERS[name](value)
        case [times, action]:
            requested, _, at = times.partition("-")
            table.instants += completed(instant(requested), action, instant(at) if at else None)
        case _:
            raise AssertionError(f"no such line in a case: {line!r}")


Sizes = list[tuple[str, int]]


def read_files(words: list[str]) -> tuple[tuple[str, int] | None, Sizes, Sizes]:
    """`base 1GiB@t10 logs 3x1MiB@t20 4MiB@t30`: three logs at t20, t21 and t22, and one at t30; and `changes`."""
    base = None
    logs: Sizes = []
    changes: Sizes = []
    kind = ""
    for word in words:
        if word in ("base", "logs", "changes"):
            kind = word
            continue
        size, _, time = word.partition("@")
        if kind == "base":
            base = (instant(time), parse_size(size))
            continue
        count, _, each = size.rpartition("x")
        for index in range(int(count or 1)):
            of_kind = logs if kind == "logs" else changes
            of_kind.append((instant(f"t{int(time[1:]) + index}"), parse_size(each)))
    return base, logs, changes


def split_group(text: str) -> GroupId:
    partition, _, file_id = text.rpartition("/")
    return partition or "p", file_id


def instant(time: str) -> str:
    assert time.startswith("t")
    return minute(int(time[1:]))


def format_outcome(table: Table, outcome: PlanOutcome) -> str:
    """Every decision, in order, and the order of the operations where there are several."""
    operations = {(operation.partition_path, operation.file_id): operation for operation in outcome.operations}
    lines = []
    for decision in outcome.decisions:
        group_id = (decision.partition_path, decision.file_id)
        words = [f"{format_group(group_id)}:", decision.choice, decision.reason]
        if decision.instant:
            words.append(format_times(decision.instant))
        if group_id in operations:
            words += ["over", *map(format_log, operations[group_id].log_files)]
            if (run := operations[group_id].run) is not None:
                words += ["taking", *map(format_log, run)]
        lines += [" ".join(words), f"  {format_times(explain(decision))}"]
    if len(outcome.operations) > 1:
        lines.append("order: " + " ".join(format_group(group_id) for group_id in operations))
    return "\n".join(lines)


def format_log(name: str) -> str:
    return format_times(name.split("_")[1].split(".")[0])


def format_group(group_id: GroupId) -> str:
    return group_id[1] if group_id[0] == "p" else "/".join(group_id)


def format_times(text: str) -> str:
    for number in range(24 * 60):
        text = text.replace(minute(number), f"t{number}")
    return text
