"""Records of the store that its tests write."""

from __future__ import annotations

from dataclasses import replace

from lakeward.state.records import (
    ControlKind,
    ControlRecord,
    DecisionRecord,
    ObservedOperation,
    ObservedPlan,
    TargetKind,
)

NOW = 1_800_000_000.0


def pause(target: str = "orders", **changes: object) -> ControlRecord:
    control = ControlRecord(ControlKind.PAUSE, TargetKind.TABLE, target, "maintenance", "ada", NOW)
    return replace(control, **changes)  # type: ignore[arg-type]


def decision(file_id: str, choice: str = "FULL", **changes: object) -> DecisionRecord:
    record = DecisionRecord("day=1", file_id, choice, "log-ratio", {"log_bytes": 7, "ratio": 0.5})
    return replace(record, **changes)  # type: ignore[arg-type]


def plan(instant: str, state: str = "requested") -> ObservedPlan:
    operations = tuple(ObservedOperation("day=1", f"fg{n}", "FULL", "001", 3, 5_000_000_000, 7) for n in range(2))
    return ObservedPlan(instant, "compaction", state, operations, NOW, "lakeward", "lakeward", "store")
