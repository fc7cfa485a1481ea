"""What a clean would delete and what keeps the rest, and what a clean did: for people and as JSON.

Touches: the console it is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from rich.console import Console
from rich.markup import escape

from lakeward.base.quantities import (
    format_count,
    format_duration,
    format_instant,
    format_iso_time,
    format_size,
    format_time,
)
from lakeward.cli.result import Result, shown
from lakeward.cli.terminal import Column, NameCell, Rendered, new_table
from lakeward.engine.dispatch.engine_rule import EngineRule
from lakeward.services.clean.plan.decision import CleanOutcome, ConsumerHold, SliceDecision, SourceDecision
from lakeward.services.clean.plan.keeper import KEPT_SLICES, Keeper, KeepReason, first_end
from lakeward.services.clean.plan.policy import CleanPolicyKind
from lakeward.services.clean.plan.purge_rules import PURGED_BECAUSE

if TYPE_CHECKING:
    from lakeward.services.clean.run.cleaner import CleanReport, FinishedClean
    from lakeward.services.clean.run.purge import PurgedRun


def planned_result(outcome: CleanOutcome) -> Result:
    return Rendered(
        document=clean_as_json(outcome),
        render=partial(render_clean, outcome),
        is_nothing=not (any(outcome.dead) or any(outcome.retiring)),
    )


def cleaned_result(report: CleanReport, purged: Sequence[PurgedRun]) -> Result:
    return Rendered(
        document=cleaned_as_json(report, purged),
        render=partial(render_cleaned, report, purged),
        is_nothing=not (report.cleans or purged),
    )


def in_round(done: CleanOutcome | tuple[CleanReport, Sequence[PurgedRun]], rule: EngineRule) -> Result:
    """The step of `lakeward service`."""
    return planned_result(done) if isinstance(done, CleanOutcome) else cleaned_result(*done)


def clean_as_json(outcome: CleanOutcome) -> dict[str, Any]:
    dead, kept = tuple(outcome.dead), tuple(_older(outcome))
    return {
        "policy": outcome.policy.kind.value,
        "retain": outcome.policy.retain,
        "reader_window_seconds": outcome.reader_window,
        "earliest_retained": outcome.earliest and outcome.earliest.time,
        "consumers": [
            {
                "consumer": hold.consumer,
                "watermark": hold.watermark,
                "why_unknown": hold.why or None,
                "commits_held_back": hold.commits,
                "seconds_behind": hold.seconds_behind,
            }
            for hold in outcome.consumers
        ],
        "pending_cleans": list(outcome.pending_cleans),
        "hindrance": outcome.hindrance,
        "files": _files(dead),
        "bytes": _bytes(dead),
        "dead": [{**_slice(each), "reasons": list(each.dead_by)} for each in dead],
        "kept": [{**_slice(each), "reasons": [keeper_as_json(keeper) for keeper in each.keepers]} for each in kept],
        "retiring": [_source(each) for each in outcome.retiring],
        "retiring_later": [
            {**_source(each), "reasons": [keeper_as_json(keeper) for keeper in each.keepers]}
            for each in outcome.sources
            if not each.retires
        ],
        "frozen": [
            {"partition": group.partition_path, "file_group": group.file_id, "why": group.why}
            for group in outcome.frozen
        ],
    }


def render_clean(outcome: CleanOutcome, console: Console) -> None:
    dead, kept = tuple(outcome.dead), tuple(_older(outcome))
    console.print(_promise(outcome), highlight=False)
    for hold in outcome.consumers:
        console.print(_consumer(hold), highlight=False, markup=False)
    for pending in outcome.pending_cleans:
        console.print(f"Clean {pending} was begun and not completed; it is ended first.", highlight=False)
    goes, stays = _by_partition(dead), _by_partition(kept)
    if goes or stays:
        columns = {"partition": Column.ELASTIC, "to go": Column.NUMBER, "": Column.NUMBER, "old, kept": Column.NUMBER}
        table = new_table({**columns, " ": Column.NUMBER})
        for partition in sorted(goes.keys() | stays.keys()):
            table.add_row(
                NameCell(partition or "(none)"),
                format_count(_files(goes.get(partition, ())), "file"),
                format_size(_bytes(goes.get(partition, ()))),
                format_count(_files(stays.get(partition, ())), "file"),
                format_size(_bytes(stays.get(partition, ()))),
            )
        console.print(table)
    for verdict in sorted({each.dead_by[0] for each in dead}):
        by = [each for each in dead if each.dead_by[0] is verdict]
        console.print(f"To go, {verdict}: {_sum(by)}.", highlight=False)
    for keys, slices in _by_keepers(kept).items():
        reasons = " and ".join(dict.fromkeys(reason for reason, _ in keys))
        words = (f"{_kept(slices, reason, name)}" for reason, name in keys)
        console.print(f"Kept, {reasons}: {_sum(slices)}, {'; and '.join(words)}.", highlight=False)
    retiring, waiting = tuple(outcome.retiring), [each for each in outcome.sources if not each.retires]
    if retiring:
        console.print(f"To retire, merged by log compactions: {_sum_of_logs(retiring)}.", highlight=False)
    for keys, logs in _by_keepers(waiting).items():
        reasons = " and ".join(dict.fromkeys(reason for reason, _ in keys))
        words = (f"{_kept(logs, reason, name)}" for reason, name in keys)
        console.print(f"Merged and waiting, {reasons}: {_sum_of_logs(logs)}, {'; and '.join(words)}.", highlight=False)
    for frozen in outcome.frozen:
        where = shown(f"{frozen.partition_path or '(none)'} {frozen.file_id}")
        console.print(f"Kept, frozen: {where}, {shown(frozen.why)}.", highlight=False, markup=False)
    if outcome.hindrance is not None:
        console.print(f"Nothing would go now. {outcome.hindrance}", highlight=False)
        return
    goes_now = [*([_sum(dead)] if dead else []), *([_sum_of_logs(retiring)] if retiring else [])]
    would_go = " and ".join(goes_now)
    console.print(f"{would_go} would go. Nothing deleted." if goes_now else "Nothing would go.", highlight=False)


def _promise(outcome: CleanOutcome) -> str:
    policy = outcome.policy
    if policy.kind is CleanPolicyKind.VERSIONS:
        return f"By versions: the {policy.retain} newest slices of each file group stay."
    if outcome.earliest is not None:
        return f"By {policy.kind}, {policy.retain}: all stays that is read as of {outcome.earliest.time} or after it."
    if any(_keeps_for_readers(each) for each in outcome.kept):
        return f"By {policy.kind}, {policy.retain}: readers still need everything, so all stays."
    if policy.kind is CleanPolicyKind.HOURS:
        return f"By hours, {policy.retain}: nothing was committed within them, so all stays, as with Hudi."
    if outcome.commits <= policy.retain or outcome.oldest_pending is None:
        done = f"{format_count(outcome.commits, 'commit')} {'has' if outcome.commits == 1 else 'have'} completed"
        return f"By commits, {policy.retain}: {done}, no more than are kept, so all stays."
    return (
        f"By commits, {policy.retain}: {outcome.oldest_pending} is pending, and no commit before it has completed, so "
        "all stays."
    )


def _keeps_for_readers(decision: SliceDecision) -> bool:
    """Nothing else keeps it."""
    return all(keeper.reason in (KeepReason.READER_WINDOW, KeepReason.CONSUMER) for keeper in decision.keepers)


def _consumer(hold: ConsumerHold) -> str:
    if hold.watermark is None:
        return f"Consumer {shown(hold.consumer)} keeps everything: {shown(hold.why)}."
    behind = "" if hold.seconds_behind is None else f", {format_duration(hold.seconds_behind)} behind the newest commit"
    held = f"; it holds the earliest commit back by {hold.commits:,}" if hold.commits else ""
    return f"Consumer {shown(hold.consumer)} has read up to {hold.watermark}{behind}{held}."


def _older(outcome: CleanOutcome) -> Iterator[SliceDecision]:
    """Slices that stay and that no reader of the table as it is now reads."""
    return (each for each in outcome.kept if all(keeper.reason is not KeepReason.NEWEST for keeper in each.keepers))


def _by_partition(decisions: Iterable[SliceDecision]) -> dict[str, list[SliceDecision]]:
    found: dict[str, list[SliceDecision]] = {}
    for each in decisions:
        found.setdefault(each.slice.partition_path, []).append(each)
    return found


_Key = tuple[KeepReason, str | None]


_Kept = TypeVar("_Kept", SliceDecision, SourceDecision)


def _by_keepers(kept: Iterable[_Kept]) -> dict[tuple[_Key, ...], list[_Kept]]:
    """Each slice, or log, once, by all that keeps it."""
    groups: dict[tuple[_Key, ...], list[_Kept]] = {}
    for decision in kept:
        groups.setdefault(tuple(dict.fromkeys(map(_key, decision.keepers))), []).append(decision)
    return groups


def _kept(slices: Iterable[SliceDecision | SourceDecision], reason: KeepReason, name: str | None) -> str:
    keepers = [each for decision in slices for each in decision.keepers if _key(each) == (reason, name)]
    return f"{KEPT_SLICES[reason].format(name=name)}{first_end(keepers, first='the first')}"


def _key(keeper: Keeper) -> _Key:
    return keeper.reason, keeper.consumer or keeper.instant


def keeper_as_json(keeper: Keeper) -> dict[str, Any]:
    return {
        "reason": keeper.reason.value,
        "instant": keeper.instant,
        "more_commits": keeper.commits,
        "more_slices": keeper.versions,
        "not_before": None if keeper.not_before is None else format_iso_time(keeper.not_before),
        "consumer": keeper.consumer,
        "read_up_to": keeper.read_up_to,
    }


def _slice(decision: SliceDecision) -> dict[str, Any]:
    slice_ = decision.slice
    return {
        "partition": slice_.partition_path,
        "file_group": slice_.file_id,
        "base_instant": slice_.base_instant,
        "files": list(decision.file_names),
        "bytes": decision.bytes,
    }


def _source(source: SourceDecision) -> dict[str, Any]:
    return {
        "partition": source.slice.partition_path,
        "file_group": source.slice.file_id,
        "file": source.log.file_name,
        "bytes": source.bytes,
        "merged_by": source.merged_by,
    }


def _sum_of_logs(sources: Sequence[SourceDecision]) -> str:
    return f"{format_count(len(sources), 'log')} of {format_size(sum(each.bytes for each in sources))}"


def _sum(decisions: Iterable[SliceDecision]) -> str:
    decisions = tuple(decisions)
    files = format_count(_files(decisions), "file")
    return f"{files} of {format_count(len(decisions), 'slice')}, {format_size(_bytes(decisions))}"


def _files(decisions: Iterable[SliceDecision]) -> int:
    return sum(len(each.file_names) for each in decisions)


def _bytes(decisions: Iterable[SliceDecision]) -> int:
    return sum(each.bytes for each in decisions)


def cleaned_as_json(report: CleanReport, purged: Sequence[PurgedRun]) -> dict[str, Any]:
    return {
        "cleans": [
            {
                "instant": each.instant,
                "completion_time": each.completion_time,
                "recovered": each.recovered,
                "files": each.files,
                "undoes": each.undoes,
                "kept_until": None if each.kept_until is None else format_iso_time(each.kept_until),
                "bytes": each.bytes,
                "earliest_retained": each.earliest_retained or None,
                "kept": [{"path": path, "why": why} for path, why in each.kept.items()],
                "seconds": each.seconds,
            }
            for each in report.cleans
        ],
        "waiting": [{"instant": each.instant, "why": each.why} for each in report.waiting],
        "purged": purged_as_json(purged),
    }


def purged_as_json(purged: Iterable[PurgedRun]) -> list[dict[str, Any]]:
    return [{"run": each.run, "reason": each.reason.value, "files": each.files, "bytes": each.bytes} for each in purged]


def render_purged(purged: Iterable[PurgedRun], console: Console) -> None:
    for each in purged:
        files = f"{format_count(each.files, 'file')}, {format_size(each.bytes)}"
        console.print(f"Quarantine of {each.run} purged: {files}; {PURGED_BECAUSE[each.reason]}.", highlight=False)


def render_cleaned(report: CleanReport, purged: Sequence[PurgedRun], console: Console) -> None:
    if not report.cleans and not report.waiting and not purged:
        console.print("Nothing to clean.")
    for clean in report.cleans:
        console.print(_headline(clean), highlight=False)
        for path, why in clean.kept.items():
            console.print(f"  kept {escape(path)}: {escape(why)}.", highlight=False)
    for waiting in report.waiting:
        console.print(f"Left clean {waiting.instant} alone: {escape(waiting.why)}.", highlight=False)
    render_purged(purged, console)


def _headline(clean: FinishedClean) -> str:
    pending = " (it was pending)" if clean.recovered else ""
    if clean.completion_time is None:
        return f"[bold]Clean {clean.instant}[/bold]{pending}: taken off the timeline, for files of it are needed again."
    went = "deleted" if clean.kept_until is None else f"set aside until {format_time(clean.kept_until)}"
    if clean.retires and clean.kept_until is not None:
        went = f"retired; they are deleted from {format_time(clean.kept_until)} on"
    if clean.undoes is not None:
        went = f"of clean {clean.undoes} brought back"
    files = f"{format_count(clean.files, 'file')} of {format_size(clean.bytes)} {went}"
    since = f" The table can be read as of {clean.earliest_retained} and after." if clean.earliest_retained else ""
    return (
        f"[bold]Clean {clean.instant}[/bold]{pending}: {files}, {format_duration(clean.seconds)}, completed at "
        f"{format_instant(clean.completion_time)}.{since}"
    )
