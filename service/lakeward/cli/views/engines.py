"""On what the plans of a preview would run, and why: for people and as JSON.

Touches: the console it is given.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Console

from lakeward.engine.dispatch.engine_rule import EngineRule
from lakeward.engine.dispatch.local import processes_of
from lakeward.protocol.progress import Engine
from lakeward.services.compaction.plan.decision import Choice, Form, PlanOutcome


def engines_as_json(outcome: PlanOutcome, rule: EngineRule) -> list[dict[str, Any]]:
    """An object for each plan that would be made."""
    found = []
    for choices, input_bytes in _plans(outcome):
        found.append({"choices": [choice.value for choice in choices], **engine_as_json(input_bytes, rule)})
    return found


def engine_as_json(input_bytes: int, rule: EngineRule) -> dict[str, Any]:
    """On what work that reads so many bytes would run."""
    chosen = rule.choose(input_bytes)
    return {
        "input_bytes": input_bytes,
        "engine": chosen.engine.value,
        "processes": _processes(rule) if chosen.engine is Engine.LOCAL else None,
        "master": rule.master if chosen.engine is Engine.SPARK else None,
        "why": chosen.why,
    }


def render_engines(outcome: PlanOutcome, rule: EngineRule, console: Console) -> None:
    """A sentence for each plan that would be made."""
    for choices, input_bytes in _plans(outcome):
        names = " and ".join(choice.value for choice in choices)
        console.print(f"{names} would run {engine_told(input_bytes, rule)}.", highlight=False, markup=False)


def engine_told(input_bytes: int, rule: EngineRule) -> str:
    """The same as what goes on a sentence that says that the work runs."""
    chosen = rule.choose(input_bytes)
    where = {
        Engine.IN_PROCESS: "in the process of the command",
        Engine.LOCAL: f"in processes of this machine, {_processes(rule)} at once",
        Engine.SPARK: f"on Spark, {rule.master}",
    }[chosen.engine]
    return f"{where}, {chosen.why}"


def _plans(outcome: PlanOutcome) -> Iterator[tuple[list[Choice], int]]:
    """What each plan has of FULL and LOG, and what it reads."""
    read = {
        choice: sum(each.read_bytes for each in outcome.operations if each.operation_type == choice.value)
        for choice in (Choice.LOG, Choice.FULL)
        if any(each.operation_type == choice.value for each in outcome.operations)
    }
    if outcome.form is Form.HYBRID and read:
        yield list(read), sum(read.values())
    else:
        yield from (([choice], input_bytes) for choice, input_bytes in read.items())


def _processes(rule: EngineRule) -> int:
    return processes_of(rule.memory_bytes, limit_bytes=rule.memory_limit_bytes)
