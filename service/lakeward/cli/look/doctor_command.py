"""`lakeward doctor TABLE`: which patterns that break tables this one has, with evidence and what to do. Reads only.

Touches: stdout, stderr; the table, reading only, through `services/together/doctor`.
Keeps:   the exit code says what was found: nothing worse than advice 0, a warning 7, a danger 6; 4 where something
         could not be looked for, and no danger was found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from lakeward.base.quantities import format_count
from lakeward.cli.configured_table import ZonedTable
from lakeward.cli.options.lock import LockArguments
from lakeward.cli.result import PARTIAL_EXIT, PROBLEMS_EXIT, Result
from lakeward.cli.serviced import serviced_table
from lakeward.cli.terminal import Rendered
from lakeward.config.settings import Writers
from lakeward.services.together.doctor.catalogue import examine_table
from lakeward.services.together.doctor.diagnosis import (
    Diagnosis,
    Grade,
    PatternFound,
    PatternUnseen,
    Symptom,
    diagnosis_as_json,
)

WARNING_EXIT = 7

_SYMPTOMS_MAX = 5
_EVIDENCE_MAX = 4
_STYLES = {Grade.DANGER: "bold red", Grade.WARNING: "yellow", Grade.ADVICE: "cyan"}


def doctor(
    *,
    opened: ZonedTable,
    given: LockArguments,
    keys: Annotated[
        bool,
        typer.Option("--keys", help="Also read the record key of every row, and look for keys that have several rows."),
    ] = False,
) -> Result:
    """Look for what breaks Hudi tables, with evidence from this table and the command that helps. Reads only.

    First comes what loses or doubles rows: plans over files that are gone, half a rollback, a metadata table that is
    out of step, instants in the future. Then comes work that is stuck. Each finding names the files and instants that
    show it, why it matters, and a remedy; where that is a command, its dry run stands beside it. A pattern that could
    not be looked for is listed, and never counts as healthy. Rows are read with --keys alone.

    A pending write without a heartbeat may be at work: it is a finding once it was silent for six hours, or at once
    with --writers stopped, or where all writers share a lock.

    Exit code 6 for a danger, 7 for a warning, 4 where something could not be looked for. `lakeward verify` reads the
    files themselves, and `lakeward explain` says why something is as it is.
    """
    locks = given.over(opened, dry_run=True)
    with serviced_table(opened, locks) as serviced:
        diagnosis = examine_table(
            serviced,
            shares_lock=locks.writers is Writers.SHARE,
            guard=serviced.guard,
            with_options={"--keys"} if keys else frozenset(),
        )
    return Rendered(
        document=diagnosis_as_json(opened.base_path, diagnosis),
        render=partial(render_diagnosis, opened.base_path, diagnosis),
        exit_code=exit_code_of(diagnosis),
    )


def exit_code_of(diagnosis: Diagnosis) -> int:
    if diagnosis.worst is Grade.DANGER:
        return PROBLEMS_EXIT
    if diagnosis.failed:
        return PARTIAL_EXIT
    return WARNING_EXIT if diagnosis.worst is Grade.WARNING else 0


def render_diagnosis(base_path: str, diagnosis: Diagnosis, console: Console) -> None:
    for found in diagnosis.found:
        _render_found(found, console)
    _render_unseen("Could not be looked for", diagnosis.failed, console, style="yellow")
    _render_unseen("Not looked for", [each for each in diagnosis.unseen if each.is_chosen], console, style="dim")
    console.print(Text(f"{base_path}: {_sentence(diagnosis)}"))
    if any(symptom.dry_run for found in diagnosis.found for symptom in found.symptoms):
        console.print(
            "Try each dry run first. The commands also ask how other writers are kept away: --writers, --lock."
        )


def _render_unseen(what: str, unseen: Sequence[PatternUnseen], console: Console, *, style: str) -> None:
    """One line for each reason."""
    for why in dict.fromkeys(each.why for each in unseen):
        codes = ", ".join(each.pattern.code for each in unseen if each.why == why)
        console.print(Text(f"{what}: {codes}. {why}", style=style))


def _render_found(found: PatternFound, console: Console) -> None:
    pattern = found.pattern
    console.print(Text.assemble((pattern.grade.value.upper(), _STYLES[pattern.grade]), f"  {pattern.title}"))
    console.print(Text(f"  {pattern.code} ({pattern.source})", style="dim"))
    console.print(Text(f"  {pattern.why}"))
    console.print(Text(f"  Hudi 1.2.0, tried: {pattern.tried}", style="dim"))
    remedies: list[tuple[str, str | None, str | None]] = []
    for symptom in found.symptoms[:_SYMPTOMS_MAX]:
        console.print(Text(f"  - {symptom.subject}", style="bold"))
        for line in _first(symptom.evidence, _EVIDENCE_MAX, "more in --json"):
            console.print(Text(f"      {line}"))
        remedy = (symptom.remedy, symptom.command, symptom.dry_run)
        if remedy not in remedies:
            remedies.append(remedy)
            _render_remedy(symptom, console)
    if len(found.symptoms) > _SYMPTOMS_MAX:
        console.print(Text(f"  - {len(found.symptoms) - _SYMPTOMS_MAX:,} more in --json"))
    console.print()


def _render_remedy(symptom: Symptom, console: Console) -> None:
    console.print(Text(f"    {symptom.remedy}"))
    for what, command in (("try", symptom.dry_run), ("then" if symptom.dry_run else "run", symptom.command)):
        if command is not None:
            console.print(Text(f"    {what:<5}{command}", style="green"))


def _first(lines: tuple[str, ...], most: int, rest: str) -> Iterator[str]:
    yield from lines[:most]
    if len(lines) > most:
        yield f"{len(lines) - most:,} {rest}"


def _sentence(diagnosis: Diagnosis) -> str:
    counts = Counter(each.pattern.grade for each in diagnosis.found)
    nouns = {Grade.DANGER: "danger", Grade.WARNING: "warning", Grade.ADVICE: "hint"}
    found = ", ".join(format_count(counts[grade], noun) for grade, noun in nouns.items() if counts[grade])
    looked = len(diagnosis.found) + len(diagnosis.absent)
    failed = f", {len(diagnosis.failed):,} could not be looked for" if diagnosis.failed else ""
    return f"{found or 'nothing was found'}. {format_count(looked, 'pattern')} looked for{failed}."
