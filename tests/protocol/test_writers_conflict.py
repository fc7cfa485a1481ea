"""What is published beside writers, and when. The cases as text are in `yielding.cases`; a model of Hudi's own check
says that no write fails for what they let pass."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

from lakeward.protocol.writers_conflict import (
    WAITS_MAX,
    LiveWrite,
    MergedWork,
    Verdict,
    WritersConflict,
    Writes,
    YieldOptions,
    decide,
)
from lakeward.table.table_version import TableVersion
from tests.services.compaction.plan.planner_cases import Case, read_cases

CASES = read_cases(Path(__file__).with_name("yielding.cases"))[1]


def verdict_of(table: str) -> Verdict:
    work: dict[str, Any] = {}
    options: dict[str, Any] = {}
    live: list[LiveWrite] = []
    completed: dict[str, str] = {}
    waited: dict[str, float] = {}
    in_all = 0.0
    for line in table.splitlines():
        match line.split():
            case ["LOG" | "FULL" as kind, instant, "in", *partitions]:
                work = {"instant": instant, "is_log": kind == "LOG", "partitions": frozenset(partitions)}
            case ["rules", rules]:
                options["configured"] = WritersConflict(rules)
            case ["live", instant]:
                live.append(LiveWrite(instant))
            case ["live", instant, "somewhere"]:
                live.append(LiveWrite(instant, inflight_at=float(instant)))
            case ["live", instant, "in", partition, *since]:
                inflight_at = float(since[1] if since else instant)
                live.append(LiveWrite(instant, frozenset((partition,)), inflight_at))
            case ["waited", seconds, "for", instant]:
                waited[instant] = float(seconds)
            case ["waited", seconds]:
                in_all = float(seconds)
            case ["done", instant, "at", completion_time]:
                completed[instant] = completion_time
            case other:
                raise AssertionError(f"no such line: {other}")
    yielding = YieldOptions(**options)
    return decide(
        MergedWork(**work, requested_at=float(work["instant"])),
        Writes(tuple(live), completed),
        rules=yielding.rules_for(TableVersion(9)),
        options=yielding,
        waited=waited,
        waited_in_all=in_all,
    )


def shown(verdict: Verdict) -> str:
    if verdict.dropped_for is not None:
        return f"drop for {verdict.dropped_for}"
    without = ", ".join(f"{partition} ({instant})" for partition, instant in sorted(verdict.left_out.items()))
    if verdict.may_publish:
        return f"publish without {without}" if without else "publish"
    waits = "wait for " + ", ".join(write.instant for write in verdict.wait_for)
    return f"{waits}, without {without}" if without else waits


@pytest.mark.parametrize("case", CASES, ids=[case.rule for case in CASES])
def test_cases(case: Case) -> None:
    """Keeps 4 of protocol/writers_conflict, and the rules by which the others come about."""
    assert shown(verdict_of(case.table)) == case.expected


def test_what_the_version_says_of_its_writers() -> None:
    """Writers of 1.0 cannot write version 9; of version 8 no file says who writes it, so the strict rules hold until an
    operator says otherwise."""
    rules = {number: YieldOptions().rules_for(TableVersion(number)) for number in (8, 9)}
    assert rules == {8: WritersConflict.RELEASE_1_0, 9: WritersConflict.DEFAULT}
    for configured in WritersConflict:
        assert YieldOptions(configured=configured).rules_for(TableVersion(8)) is configured


# --------------------------------------------------------------------- against a model of Hudi's check


@dataclass
class Write:
    """A write of Hudi's with the default strategy, and what it remembers."""

    begin: int
    last: int
    pending: frozenset[int]
    partition: str
    inflight: int | None = None


@dataclass
class Story:
    """Writers that begin and end by chance, and one plan of Lakeward among them."""

    chance: Random
    is_log: bool
    rules: WritersConflict
    time: int = 100
    live: list[Write] = field(default_factory=list)
    completed: dict[int, int] = field(default_factory=dict)
    plan: int | None = None
    published: int | None = None
    failed: list[Write] = field(default_factory=list)
    requested: dict[int, str] = field(default_factory=dict)
    """Writes that have not loaded the timeline yet, and where they will write."""

    def tick(self) -> int:
        self.time += 1
        return self.time

    def step(self) -> None:
        act = self.chance.choice(["request", "load", "load", "commit", "plan", "publish", "publish"])
        if act == "request" and len(self.live) + len(self.requested) < 3:
            self.requested[self.tick()] = self.chance.choice("ab")
        elif act == "load" and self.requested:
            begin = self.chance.choice(sorted(self.requested))
            pending = {self.plan} if self.plan and not self.published and not self.is_log else set()
            write = Write(begin, max(self.completed, default=0), frozenset(pending), self.requested.pop(begin))
            write.inflight = self.tick()
            self.live.append(write)
        elif act == "commit" and self.live:
            write = self.live.pop(self.chance.randrange(len(self.live)))
            if self._meets(write):
                self.failed.append(write)
            else:
                self.completed[write.begin] = self.tick()
        elif act == "plan" and self.plan is None:
            self.plan = self.tick()
        elif act == "publish" and self.plan is not None and self.published is None and self.may_publish:
            self.published = self.tick()
            self.completed[self.plan] = self.published

    @property
    def may_publish(self) -> bool:
        assert self.plan is not None
        writes = [LiveWrite(str(w.begin), frozenset((w.partition,)), float(w.inflight or 0)) for w in self.live]
        writes += [LiveWrite(str(begin)) for begin in self.requested]
        return decide(
            MergedWork(str(self.plan), self.is_log, frozenset("a"), float(self.plan)),
            Writes(tuple(writes), {str(begin): str(end) for begin, end in self.completed.items()}),
            rules=self.rules,
            options=YieldOptions(),
            waited={},
            waited_in_all=0.0,
        ).may_publish

    def _meets(self, write: Write) -> bool:
        """SimpleConcurrentFileWritesConflictResolutionStrategy of 1.2.0, or PreferWriter's."""
        if self.published is None or write.partition != "a":
            return False
        assert self.plan is not None
        if self.rules is WritersConflict.PREFER_WRITER:
            return self.published > write.begin and (self.is_log or self.plan > write.begin)
        if self.is_log:
            return self.published > (write.inflight or 0) and self.plan > write.last
        return self.plan in write.pending and self.plan > write.begin


@pytest.mark.parametrize("rules", [WritersConflict.DEFAULT, WritersConflict.PREFER_WRITER])
@pytest.mark.parametrize("is_log", [True, False], ids=["LOG", "FULL"])
def test_no_write_fails(rules: WritersConflict, is_log: bool) -> None:
    """Whatever writers do, no live write fails for what may be published, by Hudi's own rule. Keeps 1 of
    protocol/writers_conflict."""
    published = 0
    for seed in range(2000):
        story = Story(Random(seed), is_log, rules)
        for _ in range(60):
            story.step()
        assert not story.failed, f"seed {seed}"
        published += story.published is not None
    assert published > 500, "else this would have shown nothing"


def test_the_model_finds_conflicts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Published at any time, writes do fail."""
    monkeypatch.setattr(Story, "may_publish", True)
    failed = {True: 0, False: 0}
    for seed in range(1000):
        for is_log in failed:
            story = Story(Random(seed), is_log, WritersConflict.DEFAULT)
            for _ in range(60):
                story.step()
            failed[is_log] += len(story.failed)
    assert min(failed.values()) > 0


def test_overtaken_for_good() -> None:
    """Once a LOG may be published beside live writes, it may be at every later moment. Keeps 2 of
    protocol/writers_conflict."""
    seen = 0
    for seed in range(1000):
        story, overtaken = Story(Random(seed), True, WritersConflict.DEFAULT), False
        for _ in range(60):
            story.step()
            if story.plan is None or story.published is not None:
                continue
            is_newly = any(begin > story.plan for begin in story.completed) and bool(story.live or story.requested)
            assert story.may_publish or not overtaken, f"seed {seed}"
            overtaken = overtaken or (is_newly and story.may_publish and _touched(story))
            seen += overtaken
    assert seen


def _touched(story: Story) -> bool:
    return bool(story.requested) or any(write.partition == "a" for write in story.live)


@pytest.mark.parametrize("rules", WritersConflict)
@pytest.mark.parametrize("is_log", [True, False], ids=["LOG", "FULL"])
def test_waiting_ends(rules: WritersConflict, is_log: bool) -> None:
    """After the limit for each write, or a few limits for all, nothing is waited for. Keeps 3 of
    protocol/writers_conflict."""
    options = YieldOptions(10.0, rules)
    writes = Writes((LiveWrite("10"), LiveWrite("30", frozenset("a"), 31.0)))
    for waited, in_all in (({"10": 10.0, "30": 10.0}, 10.0), ({}, WAITS_MAX * 10.0)):
        verdict = decide(
            MergedWork("20", is_log, frozenset("a"), 20.0),
            writes,
            rules=rules,
            options=options,
            waited=waited,
            waited_in_all=in_all,
        )
        assert not verdict.wait_for


@pytest.mark.parametrize(
    ("writes", "calm"),
    [
        (Writes((LiveWrite("10", frozenset("a"), 11.0, 3.0),), usual_seconds=4.0), False),
        (Writes((LiveWrite("10", frozenset("a"), 11.0, 2.0),), usual_seconds=4.0), True),
        (Writes((LiveWrite("10", frozenset("a"), 11.0, 9.0),), usual_seconds=4.0), True),
        (Writes(), True),
        (Writes((LiveWrite("10", frozenset("a"), 11.0),)), True),
        (Writes((LiveWrite("10"),)), False),
        (Writes((), {}, "09", 0.3), False),
        (Writes((), {}, "09", 1.0), True),
        (Writes((), {}, "09", 9.9, usual_pause=2.0), False),
        (Writes((), {}, "09", 10.0, usual_pause=2.0), True),
        (Writes((), {}, "09", 1.0, usual_pause=5.0), True),
        (Writes((LiveWrite("10", frozenset("a"), 11.0),), {}, "09", 0.3), True),
        (Writes((LiveWrite("08", frozenset("a"), 11.0),), {}, "09", 0.3), False),
    ],
    ids=[
        "about-to-end",
        "halfway",
        "much-longer",
        "idle",
        "writing",
        "beginning",
        "just-committed",
        "paused",
        "expected",
        "expected-no-more",
        "resting",
        "began-since",
        "of-two-writers",
    ],
)
def test_when_the_lock_is_taken(writes: Writes, calm: bool) -> None:
    """Not while a writer begins or is about to commit, nor right after a commit, when the next write begins."""
    assert writes.is_calm is calm
