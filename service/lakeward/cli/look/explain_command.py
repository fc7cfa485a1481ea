"""`lakeward explain TABLE`: what compact would do now, and why; with --file or --instant what one of them is, why it is
still there and until when. Reads only.

Touches: stdout; the table and the store, reading only.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import Console

from lakeward.base.clock import SystemClock
from lakeward.base.errors import Refused, UsageError
from lakeward.base.quantities import format_count, format_iso_time, format_size, format_time
from lakeward.cli.configured_table import ConfiguredTable, ZonedTable
from lakeward.cli.look.plan_command import (
    decision_as_json,
    engine_rule_of,
    explanations_as_json,
    preview,
    preview_result,
    render_explanations,
)
from lakeward.cli.options.plan_options import PlanArguments
from lakeward.cli.options.store import TIMEOUT_SECONDS, has_store, opened_store
from lakeward.cli.result import NOTHING_EXIT, Result
from lakeward.cli.serviced import judge_of
from lakeward.cli.services.clean_view import keeper_as_json
from lakeward.cli.services.savepoint_commands import explain_pinned, savepoints_as_json
from lakeward.cli.terminal import Rendered, Terminal
from lakeward.config.permitted_services import permitted_services_of
from lakeward.config.settings import Writers
from lakeward.protocol.refusals.eligibility import TableService
from lakeward.scan.moment import parse_seconds
from lakeward.services.archive.plan.archive_plan import ArchivePlan
from lakeward.services.archive.settings import ArchiveSettings
from lakeward.services.clean.plan.decision import CleanOutcome
from lakeward.services.clean.plan.storage_states import StorageStates
from lakeward.services.clean.settings import CleanSettings
from lakeward.services.compaction.plan.decision import PlanOutcome
from lakeward.services.compaction.plan.decision_in_words import decision_of, sentence_of
from lakeward.services.together.explaining.file_explanation import FileExplanation, Gone, explain_in_sentences
from lakeward.services.together.explaining.instant_explanation import InstantExplanation, instant_in_sentences
from lakeward.services.together.explaining.table_explanation import JudgedBy, TableExplanation
from lakeward.state.records import DecisionRecord
from lakeward.table.snapshot import TableSnapshot


def explain(
    *,
    opened: ZonedTable,
    file: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Explain one data file instead: by its path below the table or from the current folder, its whole "
            "path, or its name.",
        ),
    ] = None,
    instant: Annotated[
        str | None,
        typer.Option(metavar="T", help="Explain one instant of the timeline instead, by the digits of its time."),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN",
            help="What a daemon had decided for each file group at that time: an instant, a date, a date and time, "
            "or '2 hours ago'. Times without an offset are in the zone of the table's instants.",
        ),
    ] = None,
    arguments: PlanArguments,
) -> Result:
    """Explain for each file group in one sentence what would happen to it, why, and when that would change; and what
    holds the table's storage and its timeline.

    With --file: which slice a file is in, who wrote it, and what keeps it until when: readers, the clean policy, a
    pending plan, a savepoint, the quarantine; or what happened to it. With --instant: what it is, what happened to the
    files that it wrote, and what keeps it out of the archive. With --at: what a daemon had decided then, from its
    store, which keeps each choice for 14 days and one a day for 90. Exit code 3 if nothing is known of the file,
    instant or time.
    """
    given = [each for each in (file, instant, at) if each is not None]
    if not given:
        return _explain_table(opened, arguments)
    if len(given) > 1 or not (arguments.is_silent or (at is not None and arguments.only_narrows)):
        raise UsageError(
            "--file, --instant and --at go with nothing that is about a plan, nor with each other.",
            why="What was decided at a time may be narrowed to partitions and file groups." if at is not None else "",
            remedy="Ask for one of them, without --type and --set; --partition and --file-group go with --at.",
        )
    if at is not None:
        return _explain_past(opened, at, arguments)
    return _explain_file(opened, file) if file is not None else _explain_instant(opened, instant or "")


def explanation_of(opened: ConfiguredTable, snapshot: TableSnapshot | None = None) -> TableExplanation:
    """The table as its configuration judges it.

    Args:
        snapshot: one that was taken just now; else one is taken.
    """
    table = opened.table
    return TableExplanation(
        judge_of(opened, opened.locks),
        snapshot or opened.snapshot(),
        table.section(CleanSettings),
        table.section(ArchiveSettings),
        table.as_hudi_has_it,
    )


def _from_here(given: str, base_path: str) -> str | None:
    """The path below a table of the file system that a path from the current folder is; None where it is not below."""
    if os.path.isabs(given) or "://" in given or not base_path.startswith("/"):
        return None
    # Links are followed in both, but for that of the file itself: a table holds none.
    folder, name = os.path.split(os.path.join(os.getcwd(), given))
    path, root = os.path.join(os.path.realpath(folder), name), os.path.realpath(base_path)
    return path.removeprefix(f"{root}/") if path.startswith(f"{root}/") else None


def _explain_file(opened: ConfiguredTable, given: str) -> Result:
    explained = explanation_of(opened)
    found = explained.file(given, from_here=_from_here(given, opened.base_path))
    sentences = explain_in_sentences(found, now=SystemClock().now(), zone=explained.snapshot.zone.zone)
    is_known = found.verdict is not Gone.UNKNOWN
    return _sentences_result(explained, file_as_json(found), sentences, is_known=is_known)


def _explain_instant(opened: ConfiguredTable, time: str) -> Result:
    explained = explanation_of(opened)
    found = explained.instant(time)
    sentences = list(instant_in_sentences(found, now=SystemClock().now()))
    return _sentences_result(explained, instant_as_json(found), sentences, is_known=found.is_known)


def _explain_past(opened: ConfiguredTable, when: str, arguments: PlanArguments) -> Result:
    """What a daemon had decided, as its store has it."""
    settings, clock = opened.settings, SystemClock()
    at = parse_seconds(when, opened.zone(), now=clock.now())
    since, records, by = None, tuple[DecisionRecord, ...](), "no daemon's store is there"
    if has_store(settings):
        with opened_store(None, settings, clock, timeout=TIMEOUT_SECONDS) as store:
            since, records = store.observations.decided_at(settings.name_of(opened.base_path), at)
            by = f"by the store {store.name}"
    found = [
        (record, decision)
        for record in records
        if arguments.groups.selects(record.partition_path, record.file_id)
        and (decision := decision_of(record)) is not None
    ]

    def render(console: Terminal) -> None:
        console.print(f"As of {format_time(at)}, {by}:", highlight=False, markup=False)
        for record, decision in found:
            where = f"{decision.partition_path or '(none)'} {decision.file_id}"
            chosen = f"Since {format_time(record.chosen_at or 0.0)}."
            console.print(f"{where} {sentence_of(decision)} {chosen}", highlight=False, markup=False)
        if not found:
            known = "none is known" if since is None else f"they are known since {format_time(since)}"
            console.print(f"No decision of then about this table; {known}.", highlight=False, markup=False)

    return Rendered(
        document={
            "at": at,
            "time": format_iso_time(at),
            "known_since": since,
            "known_since_time": None if since is None else format_iso_time(since),
            "decisions": [
                {
                    **decision_as_json(decision),
                    "explanation": sentence_of(decision),
                    "chosen_at": record.chosen_at,
                    "chosen_time": format_iso_time(record.chosen_at or 0.0),
                    "decided_at": record.decided_at,
                    "decided_time": format_iso_time(record.decided_at or 0.0),
                }
                for record, decision in found
            ],
        },
        render=render,
        exit_code=0 if found else NOTHING_EXIT,
    )


def _sentences_result(
    explained: TableExplanation, document: dict[str, Any], sentences: Sequence[str], *, is_known: bool
) -> Result:
    def render(console: Terminal) -> None:
        for sentence in (*sentences, explained.judged_by.sentence):
            console.print(sentence, highlight=False, markup=False)

    return Rendered(
        document={**document, "judged_by": judged_by_as_json(explained.judged_by)},
        render=render,
        exit_code=0 if is_known else NOTHING_EXIT,
    )


def _explain_table(opened: ConfiguredTable, arguments: PlanArguments) -> Result:
    beside: Sequence[Result] = ()
    rule = engine_rule_of(opened, arguments)
    beside_writers = opened.locks.writers is Writers.SHARE
    try:
        found, beside = preview(opened, arguments, rule)
        planned, snapshot = found.outcome, found.snapshot
    except Refused:
        planned, snapshot = PlanOutcome((), ()), opened.snapshot()
        permitted = permitted_services_of(opened.table, snapshot, beside_writers=beside_writers)
        only_cleans = permitted.may(TableService.CLEANING) and not permitted.may(TableService.COMPACTION)
        if not (arguments.is_silent and only_cleans):
            raise  # there is nothing else that could be said
    permitted = permitted_services_of(opened.table, snapshot, beside_writers=beside_writers)
    explained = explanation_of(opened, snapshot)
    states, archiving, now = explained.storage_states, explained.archiving, SystemClock().now()
    pinned = explained.pinned

    def document(outcome: PlanOutcome) -> dict[str, Any]:
        return {
            **explanations_as_json(outcome),
            "no_work": permitted.no_work or None,
            "refused": {service.value: text for service, text in permitted.texts.items()},
            "savepoints": savepoints_as_json(pinned, now=now),
            "storage": storage_as_json(states),
            "judged_by": judged_by_as_json(explained.judged_by),
            "archiving_blocked_by": None
            if archiving is None or archiving.blocked_by is None
            else {"reason": archiving.blocked_by.reason.value, "explanation": archiving.blocked_by.why},
        }

    def render(outcome: PlanOutcome, console: Console) -> None:
        render_explanations(outcome, console)
        if permitted.no_work:
            console.print(f"There is nothing to compact: {permitted.no_work}.", highlight=False, markup=False)
        for service, text in permitted.texts.items():
            console.print(f"Refused, {service}: {text}", highlight=False, markup=False)
        explain_pinned(pinned, console, now=now)
        render_storage(states, explained.clean, archiving, explained.judged_by, console)

    return preview_result(planned, beside, rule, document=document, render=render)


def file_as_json(file: FileExplanation) -> dict[str, Any]:
    written, place = file.written_by, file.place
    return {
        "path": file.path,
        "verdict": file.verdict.value,
        "bytes": file.size,
        "file_group": file.file_id,
        "instant": file.instant,
        "written_by": None
        if written is None
        else {"action": written.action, "state": written.state.value, "completion_time": written.completion_time},
        "is_archived": file.is_archived,
        "slice": None
        if place is None
        else {"base_instant": place.base_instant, "number": place.number, "of": place.slices},
        "superseded_by": place and place.superseded_by,
        "made_from": list(file.made_from),
        "replaced_by": file.replaced_by,
        "went_to": list(file.went_to),
        "merged_by": file.merged_by,
        "kept_by": [keeper_as_json(keeper) for keeper in file.keepers],
        "dead_by": list(file.dead_by),
        "hindrance": file.hindrance,
        "frozen_because": file.frozen and file.frozen.why,
        "savepoints": [each.savepoint.instant for each in file.pinned],
        "plans": list(file.plans),
        "cleaned_by": file.cleaned_by,
        "cleaning_by": file.cleaning_by,
        "quarantine_run": file.quarantined and file.quarantined.run,
        "quarantined_until": file.quarantined and format_iso_time(file.quarantined.keep_until),
        "rolled_back_by": file.rolled_back_by,
    }


def instant_as_json(instant: InstantExplanation) -> dict[str, Any]:
    archiving = instant.archiving
    return {
        "instant": instant.time,
        "on_timeline": [
            {"action": each.action, "state": each.state.value, "completion_time": each.completion_time}
            for each in instant.instants
        ],
        "is_archived": not instant.instants and instant.archived_at is not None,
        "archived_completion_time": instant.archived_at,
        "operation": instant.operation,
        "merged_by": instant.merged_by,
        "rolled_back_by": instant.rolled_back_by,
        "rolls_back": list(instant.rolls_back),
        "planned_groups": instant.planned_groups,
        "rollback": None
        if instant.decision is None
        else {
            "step": instant.decision.step.value,
            "reason": instant.decision.reason.value,
            "explanation": instant.decision.why,
            "until": instant.decision.until,
        },
        "deleted": None
        if instant.clean is None
        else {partition: list(names) for partition, names in instant.clean.deleted.items()},
        "files": [{"path": file.path, "verdict": file.verdict.value, "bytes": file.size} for file in instant.files],
        "archiving": {
            "goes_next": archiving is not None and archiving.takes(instant.time),
            "kept_by": [{"reason": limit.reason.value, "explanation": limit.why} for limit in instant.limits],
        },
    }


def judged_by_as_json(judged_by: JudgedBy) -> dict[str, Any]:
    clean, archive = judged_by.clean, judged_by.archive
    return {
        "clean": {"policy": clean.kind.value, "retain": clean.retain, "because": judged_by.clean_because},
        "archive": {
            "commits_min": archive.commits_min,
            "commits_max": archive.commits_max,
            "because": judged_by.archive_because,
        },
    }


def storage_as_json(states: StorageStates) -> dict[str, Any]:
    return {state.value: {"files": total.files, "bytes": total.bytes} for state, total in states.items()}


def render_storage(
    states: StorageStates,
    clean: CleanOutcome,
    archiving: ArchivePlan | None,
    judged_by: JudgedBy,
    console: Console,
) -> None:
    """What holds the storage, what a clean would take, what blocks the archiver."""
    texts = (f"{format_size(total.bytes)} {state}" for state, total in states.items() if total.files)
    console.print(f"Storage: {', '.join(texts) or 'nothing'}.", highlight=False)
    dead = tuple(clean.dead)
    files, size = sum(len(each.file_names) for each in dead), format_size(sum(each.bytes for each in dead))
    goes = f"would take {format_count(files, 'file')} of {size}" if dead else "would take nothing"
    console.print(f"A clean {goes}; `lakeward clean --dry-run` says which, and what keeps the rest.", highlight=False)
    if archiving is not None and archiving.blocked_by is not None:
        console.print(
            f"Archiving is held ({archiving.blocked_by.reason}): {archiving.blocked_by.why}",
            highlight=False,
            markup=False,
        )
    elif archiving is not None and archiving.archived:
        console.print(f"The archiver would take {len(archiving.archived):,} instants.", highlight=False)
    console.print(judged_by.sentence, highlight=False, markup=False)
