"""What is rolled back, and what of it. The cases as text are in `rollback.cases`."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.format.timeline.instant import State
from lakeward.protocol.pending.rollback import (
    WHY,
    Beat,
    PendingRollback,
    RollbackDecision,
    RollbackFacts,
    RollbackReason,
    decide,
    plan_rollback,
)
from lakeward.table.timeline.timeline import Timeline
from tests.protocol.pending.test_stuck import CASES as STUCK
from tests.protocol.pending.test_stuck import decisions_of as decisions_of_services
from tests.services.compaction.plan.planner_cases import Case, read_cases
from tests.synthetic_table import completed, pending

CASES = read_cases(Path(__file__).with_name("rollback.cases"))[1]


def at(number: str) -> str:
    return f"20260101000000{int(number):03}"


def decisions_of(table: str) -> tuple[RollbackDecision, ...]:
    instants = []
    beats: dict[str, Beat] = {}
    rollbacks: dict[str, PendingRollback] = {}
    stopped = False
    for line in table.splitlines():
        match line.split():
            case ["stopped"]:
                stopped = True
            case ["done", action, number, "at", completion]:
                instants += completed(at(number), action, at(completion))
            case ["rollback", number, "unreadable"]:
                instants += pending(at(number), "rollback")
                rollbacks[at(number)] = PendingRollback(None, is_own=True)
            case ["rollback", number, "of", target, *own]:
                instants += pending(at(number), "rollback")
                rollbacks[at(number)] = PendingRollback(at(target), is_own=own == ["own"])
                beats[at(number)] = Beat.ALIVE if own == ["alive"] else Beat.ABSENT
            case [action, number, *said]:
                state = State.REQUESTED if "requested" in said else State.INFLIGHT
                instants += pending(at(number), action, state)
                beats[at(number)] = next((Beat(word) for word in said if word != "requested"), Beat.ABSENT)
            case other:
                raise AssertionError(f"no such line: {other}")
    return decide(Timeline(tuple(instants)), RollbackFacts(beats, rollbacks, stopped))


def shown(decision: RollbackDecision) -> str:
    target = "" if decision.target is None else f" of {int(decision.target[-3:])}"
    return f"{decision.action} {int(decision.instant[-3:])}: {decision.step}{target}, {decision.reason}"


@pytest.mark.parametrize("case", CASES, ids=[case.rule for case in CASES])
def test_each_case(case: Case) -> None:
    """Keeps 1 and 2 of protocol/pending/rollback: each pending instant gets the decision of its case, the newest
    first."""
    assert [shown(decision) for decision in decisions_of(case.table)] == case.expected.strip().splitlines()


def test_every_reason_has_a_case_and_words() -> None:
    """No reason is there that nothing gives."""
    given = {decision.reason for case in CASES for decision in decisions_of(case.table)}
    given |= {decision.reason for case in STUCK for decision in decisions_of_services(case.table)}
    assert given == set(RollbackReason) == WHY.keys()


def test_a_write_of_which_nothing_is_known_stays() -> None:
    """A heartbeat that was not read proves nothing."""
    (decision,) = decide(Timeline(tuple(pending(at("10"), "deltacommit"))), RollbackFacts(writers_stopped=True))
    assert decision.reason is RollbackReason.LIVE_WRITER


def test_files_are_shown_by_their_names() -> None:
    """Keeps 3 of protocol/pending/rollback: whatever markers say, only what carries the instant goes: base file, log
    and log of changes, but neither older files, nor what merely looks like it."""
    instant = at("10")
    names = {
        "p": [
            f"f_0-0-0_{instant}.parquet",
            f".f_{instant}.log.1_0-0-0",
            f".f_{instant}.log.1_0-0-0.cdc",
            f"f_0-0-0_{at('9')}.parquet",
            f".{instant}_{at('9')}.log.1_0-0-0",
            f"{instant}.parquet",
            ".hoodie_partition_metadata",
        ],
        "q": [f"f_0-0-0_{at('9')}.parquet"],
    }
    plan = plan_rollback(instant, "deltacommit", names, native=False)
    assert plan.files == {"p": tuple(sorted(names["p"][:3]))}
