"""What happens to table services that were left unfinished. The cases as text are in `stuck.cases`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lakeward.format.timeline.instant import State
from lakeward.protocol.pending.rollback import Beat, RollbackDecision, RollbackReason, Step
from lakeward.protocol.pending.stuck import Deadline, ServiceFacts, decide_services
from lakeward.table.timeline.timeline import Timeline
from tests.services.compaction.plan.planner_cases import Case, read_cases
from tests.synthetic_table import pending

CASES = read_cases(Path(__file__).with_name("stuck.cases"))[1]
HOUR = 3600.0
WORDS = {each.value for each in Beat}


def at(number: str) -> str:
    return f"20260101000000{int(number):03}"


def decisions_of(table: str) -> tuple[RollbackDecision, ...]:
    instants = []
    facts: dict[str, ServiceFacts] = {}
    rolled_back: set[str] = set()
    deadline = Deadline(10 * HOUR, 6 * HOUR)
    asked = None
    for line in table.splitlines():
        match line.split():
            case ["stopped"]:
                deadline = replace(deadline, writers_stopped=True)
            case ["named", number]:
                asked = at(number)
            case ["never"]:
                deadline = replace(deadline, silent_after=None)
            case ["rollback", number, "of", target]:
                instants += pending(at(number), "rollback")
                rolled_back.add(at(target))
            case [action, number, *said]:
                state = State.REQUESTED if "requested" in said else State.INFLIGHT
                instants += pending(at(number), action, state)
                beat = next((Beat(word) for word in said if word in WORDS), Beat.ABSENT)
                hour = said[said.index("sign") + 1] if "sign" in said else "9"
                facts[at(number)] = ServiceFacts(beat, None if hour == "none" else float(hour) * HOUR)
            case other:
                raise AssertionError(f"no such line: {other}")
    return decide_services(Timeline(tuple(instants)), facts, deadline, rolled_back=rolled_back, asked=asked)


def shown(decision: RollbackDecision) -> str:
    until = "" if decision.until is None else f" until {decision.until / HOUR:.0f}"
    return f"{decision.action} {int(decision.instant[-3:])}: {decision.step}, {decision.reason}{until}"


@pytest.mark.parametrize("case", CASES, ids=[case.rule for case in CASES])
def test_each_case(case: Case) -> None:
    """Keeps 1 and 3 of protocol/pending/stuck: each pending service gets the decision of its case, the newest first."""
    assert [shown(decision) for decision in decisions_of(case.table)] == case.expected.strip().splitlines()


def test_a_service_of_which_nothing_is_known_stays() -> None:
    """Keeps 2 of protocol/pending/stuck: a heartbeat that was not read proves nothing."""
    timeline = Timeline(tuple(pending(at("10"), "compaction")))
    (decision,) = decide_services(timeline, {}, Deadline(1e12, 1.0, writers_stopped=True), rolled_back=())
    assert (decision.step, decision.reason) == (Step.LEAVE, RollbackReason.LIVE_WRITER)


def test_each_decision_says_why() -> None:
    """For people, in words; and of what is left, what ends it."""
    for case in CASES:
        for decision in decisions_of(case.table):
            assert decision.why
            if decision.reason in (RollbackReason.WAITING, RollbackReason.PENDING_SERVICE):
                assert ": " in decision.why
