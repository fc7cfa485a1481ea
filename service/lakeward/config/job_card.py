"""The card of a job that ended: why, what it took, what was predicted, and when readers have that back.

The same on pages, on the command line and in JSON. A job has paid back once readers have saved what it took. It never
does where everything that it wrote was merged again before.

Touches: nothing.
Keeps:   1. it pays back when what it took is what readers save in that time, at the read rates that were assumed;
         2. one whose files were all merged again before that did not pay back, and it says when that was.
See:     docs/decisions/0174-cards.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from lakeward.base.quantities import (
    DAY_SECONDS,
    format_count,
    format_duration,
    format_iso_time,
    format_size,
    format_time,
)
from lakeward.protocol.job_report import JobReport, KeptCost, ReadLoad


def detail_of(report: JobReport, phases: Mapping[str, float]) -> dict[str, Any]:
    """What the store keeps of a job beside the figures that are added up."""
    detail: dict[str, Any] = {"phases": phases}
    if (cost := report.cost) is not None:
        detail |= {
            "reasons": dict(cost.reasons),
            "before": asdict(cost.before),
            "after": asdict(cost.after),
            "price": cost.price,
            "written": dict(cost.written),
            "rewritten": dict(cost.rewritten),
        }
    return detail


class PayBack(StrEnum):
    """Whether a job has paid back. Stable names: they stand in JSON."""

    PAID = "paid"
    """Readers have saved what it took, if they read as was assumed."""
    OPEN = "open"
    """They will have, at a time to come."""
    REWRITTEN = "rewritten"
    """All that it wrote was merged again before they had."""
    NEVER = "never"
    """They save nothing."""


@dataclass(frozen=True, slots=True)
class Card:
    """A job's costs, judged at one moment."""

    cost: KeptCost
    pay_back: PayBack | None
    """None where the service has no model of what readers save."""
    pays_back_at: float | None = None
    rewritten_at: float | None = None
    """When the last of what it wrote was merged again; None while something of it is left."""

    @property
    def did_not_pay(self) -> bool:
        return self.pay_back in (PayBack.REWRITTEN, PayBack.NEVER)

    @property
    def times_predicted(self) -> float | None:
        """What it took over what was predicted."""
        actual, predicted = self.cost.actual_seconds, self.cost.predicted_seconds
        return actual / predicted if predicted and actual is not None else None

    def lines(self, *, size: Callable[[float], str] = format_size) -> Iterator[tuple[str, str]]:
        """Labels and texts, for people. `size` says how bytes are written."""
        cost, detail = self.cost, self.cost.detail
        if reasons := detail.get("reasons"):
            yield "Why", ", ".join(f"{number} {reason}" for reason, number in _greatest_first(reasons))
        waited = f", of which it waited {format_duration(cost.waited_seconds)}" if cost.waited_seconds else ""
        yield "Took", format_duration(cost.seconds) + waited
        if phases := {name: seconds for name, seconds in detail.get("phases", {}).items() if seconds >= _SHOWN_SECONDS}:
            words = (f"{name.replace('_', ' ')} {format_duration(took)}" for name, took in _greatest_first(phases))
            yield "Phases", ", ".join(words)
        if "before" in detail:
            before, after = ReadLoad(**detail["before"]), ReadLoad(**detail["after"])
            yield "Files", f"{_files(before, size)} before, {_files(after, size)} after"
            yield "A full query", f"{_logs(before, size)} before; {_logs(after, size)} after"
            if before.point_bytes and (slices := sum(detail.get("reasons", {}).values())):
                words = (_point(load, slices, size) for load in (before, after))
                yield "A query of one key", "{} before; {} after".format(*words)
        if cost.predicted_seconds is not None:
            yield "Predicted", f"{format_core_seconds(cost.predicted_seconds)} core-seconds"
        if cost.actual_seconds is not None:
            unit = "CPU seconds" if cost.cpu_seconds is not None else "seconds of its tasks by the clock"
            times = "" if self.times_predicted is None else f", {self.times_predicted:.2g} times what was predicted"
            yield "Actual", f"{format_core_seconds(cost.actual_seconds)} {unit}{times}"
        if self.pay_back is not None:
            yield "Pays back", self._pay_back_text()

    def _pay_back_text(self) -> str:
        match self.pay_back, self.pays_back_at:
            case PayBack.NEVER, _:
                return "never: readers save nothing"
            case PayBack.REWRITTEN, float(at):
                again = format_time(self.rewritten_at or 0.0)
                return f"it did not: all was merged again at {again}, before {format_time(at)}"
            case PayBack.PAID, float(at):
                return f"at {format_time(at)}, which is past, {self._rate}"
            case _, at:
                return f"at {format_time(at or 0.0)}, {self._rate}"

    @property
    def _rate(self) -> str:
        return f"as readers save {format_core_seconds(self.cost.saved_seconds_a_day)} core-seconds a day"

    def as_json(self) -> dict[str, Any]:
        cost = self.cost
        shown = {name: value for name, value in cost.detail.items() if name not in ("written", "rewritten")}
        return {
            "seconds": cost.seconds,
            "waited_seconds": cost.waited_seconds,
            "read_bytes": cost.read_bytes,
            "written_bytes": cost.written_bytes,
            "predicted_core_seconds": cost.predicted_seconds,
            "cpu_seconds": cost.cpu_seconds,
            "task_seconds": cost.task_seconds,
            "times_predicted": self.times_predicted,
            "saved_core_seconds_a_day": cost.saved_seconds_a_day,
            **shown,
            "pay_back": None if self.pay_back is None else self.pay_back.value,
            "pays_back_at": self.pays_back_at,
            "pays_back_time": None if self.pays_back_at is None else format_iso_time(self.pays_back_at),
            "rewritten_at": self.rewritten_at,
            "rewritten_time": None if self.rewritten_at is None else format_iso_time(self.rewritten_at),
        }


_SHOWN_SECONDS = 0.05


def format_core_seconds(seconds: float | None) -> str:
    """Three figures, or nothing where it is not known."""
    if seconds is None:
        return ""
    return f"{seconds:,.0f}" if abs(seconds) >= 100 else f"{seconds:.3g}"


def card_of(cost: KeptCost, later: Sequence[KeptCost], *, now: float) -> Card:
    """
    Args:
        later: costs of jobs of the table, oldest first; those that did not end after this one say nothing.
    """
    actual, saved = cost.actual_seconds, cost.saved_seconds_a_day
    rewritten_at = _rewritten_at(cost, later)
    if actual is None or saved is None:
        return Card(cost, None, rewritten_at=rewritten_at)
    if saved <= 0:
        return Card(cost, PayBack.NEVER, rewritten_at=rewritten_at)
    at = cost.ended_at + actual / saved * DAY_SECONDS
    if rewritten_at is not None and rewritten_at < at:
        return Card(cost, PayBack.REWRITTEN, at, rewritten_at)
    return Card(cost, PayBack.PAID if at <= now else PayBack.OPEN, at, rewritten_at)


def _rewritten_at(cost: KeptCost, later: Sequence[KeptCost]) -> float | None:
    left = dict(cost.detail.get("written") or {})
    if not left:
        return None
    for job in later:
        if job.ended_at <= cost.ended_at or job.job_id == cost.job_id:
            continue
        for instant, number in (job.detail.get("rewritten") or {}).items():
            if instant in left:
                left[instant] -= number
        if all(number <= 0 for number in left.values()):
            return job.ended_at
    return None


def _greatest_first(numbers: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return sorted(numbers.items(), key=lambda each: (-each[1], each[0]))


def _files(load: ReadLoad, size: Callable[[float], str]) -> str:
    return f"{format_count(load.files, 'file')} of {size(load.bytes)}"


def _point(load: ReadLoad, slices: int, size: Callable[[float], str]) -> str:
    """What a query of one key of a slice opened and read, on average over the slices."""
    files = load.files / slices
    shown = format_count(round(files), "file") if files == round(files) else f"{files:.1f} files"
    return f"opened {shown} and read {size(load.point_bytes / slices)}"


def _logs(load: ReadLoad, size: Callable[[float], str]) -> str:
    merged = f" and merged {size(load.merged_bytes)}" if load.merged_bytes else ""
    takes = format_core_seconds(load.core_seconds)
    return f"opened {format_count(load.logs_opened, 'log')}{merged}, {takes} core-seconds"
