"""The checks of `lakeward doctor` about work that is planned, and work that a dead process left half done.

Touches: nothing; what a check needs, `doctor_view` reads.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Required, TypedDict

from lakeward.base.paths import join
from lakeward.base.quantities import format_count
from lakeward.protocol.pending.pending_work import pending_work
from lakeward.protocol.pending.rollback import RollbackDecision, Step
from lakeward.protocol.refusals.eligibility import TableService
from lakeward.protocol.serviced_table import label
from lakeward.services.together.doctor.diagnosis import Symptom
from lakeward.services.together.doctor.doctor_view import DoctorView, say_group
from lakeward.table.file_system_view import GroupId
from lakeward.table.timeline.timeline import WRITE_ACTIONS


def plans_over_gone_files(view: DoctorView) -> Iterator[Symptom]:
    snapshot = view.snapshot
    for work in pending_work(snapshot):
        evidence = []
        for operation in work.plan.operations:
            if (operation.partition_path, operation.file_id) in snapshot.replaced:
                continue  # what was replaced is left out of the compaction
            for path in (join(operation.partition_path, name) for name in operation.file_names):
                if path not in view.paths:
                    clean = view.deleted_by(path)
                    by = "" if clean is None else f", and clean {clean} deleted it"
                    evidence.append(f"it names {path}, which is not there{by}")
        if evidence:
            foreign = () if work.is_own else ("--foreign",)
            yield Symptom(
                subject=f"{label(work.action)} {work.instant}",
                evidence=tuple(evidence),
                remedy="Bring the files back first, from a copy or with `lakeward quarantine list`. Where they are "
                "lost, remove the plan: it deletes nothing more, and the file groups can be compacted again.",
                **view.act("unschedule", work.instant, *foreign),
            )
    gone: dict[str, list[GroupId]] = defaultdict(list)
    for group_id, instant in snapshot.pending_clusterings.items():
        if group_id not in snapshot.live_groups and group_id not in snapshot.replaced:
            gone[instant].append(group_id)
    for instant, groups in sorted(gone.items()):
        yield Symptom(
            subject=f"clustering {instant}",
            evidence=tuple(f"it is to rewrite {say_group(each)}, of which no file is there" for each in groups),
            remedy="Bring the files back first, from a copy or with `lakeward quarantine list`. Where they are lost, "
            "roll the plan back: it has replaced nothing, and holds its file groups as long as it is there.",
            **view.act("rollback", instant),
        )


def clusterings_overwritten(view: DoctorView) -> Iterator[Symptom]:
    for instant, groups in _replaced(view, view.snapshot.pending_clusterings.items()):
        yield Symptom(
            subject=f"clustering {instant}",
            evidence=groups,
            remedy="Roll the plan back before an engine carries it out: it has replaced nothing yet. Make Hudi plan "
            "another one afterwards.",
            **view.act("rollback", instant),
        )


def compactions_overwritten(view: DoctorView) -> Iterator[Symptom]:
    snapshot = view.snapshot
    pending = [*snapshot.pending_compactions.items(), *snapshot.pending_log_compactions.items()]
    for instant, groups in _replaced(view, pending):
        yield Symptom(
            subject=f"compaction {instant}",
            evidence=groups,
            remedy="Carry the plan out with Lakeward, which leaves these file groups out and completes the rest.",
            **view.act("compact"),
        )


def _replaced(view: DoctorView, pending: Iterable[tuple[GroupId, str]]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The plans over file groups that are replaced already, each with these."""
    found: dict[str, list[str]] = defaultdict(list)
    for group_id, instant in pending:
        if (by := view.snapshot.replaced.get(group_id)) is not None:
            found[instant].append(f"its plan has {say_group(group_id)}, which {by} has replaced")
    yield from ((instant, tuple(found[instant])) for instant in sorted(found))


def cleans_of_planned_files(view: DoctorView) -> Iterator[Symptom]:
    plans = {
        join(operation.partition_path, name): work
        for work in pending_work(view.snapshot)
        for operation in work.plan.operations
        for name in operation.file_names
    }
    for clean, paths in sorted(view.planned_deletions.items()):
        if hit := sorted(path for path in paths if path in plans):
            yield Symptom(
                subject=f"clean {clean}",
                evidence=tuple(
                    f"it is going to delete {path}, which {label(plans[path].action)} {plans[path].instant} is to read"
                    for path in hit
                ),
                remedy="Stop every engine that cleans, and carry the compaction out first. Any cleaner ends the clean.",
                **view.act("compact"),
            )


def interrupted(action: str, refusal_id: str) -> Callable[[DoctorView], Iterator[Symptom]]:
    """The check for instants of an action that all services wait for, and that no process is at work on."""

    def check(view: DoctorView) -> Iterator[Symptom]:
        refusals = {refusal.subject: refusal for refusal in view.refused_by({refusal_id})}
        for instant in view.snapshot.timeline.pending:
            refusal = refusals.get(instant.file_name)
            if instant.action == action and refusal is not None and not view.may_live(instant.time):
                yield Symptom(
                    subject=f"{action} {instant.time}",
                    evidence=(
                        f"{instant.file_name} is {view.age(instant.time)}, and no heartbeat beats",
                        refusal.why,
                    ),
                    remedy=refusal.remedy,
                    command=view.command("explain", "--instant", instant.time),
                )

    return check


def rollbacks_not_ended(view: DoctorView) -> Iterator[Symptom]:
    timeline, targets = view.snapshot.timeline, view.snapshot.rollback_targets
    for decision in view.decisions:
        target = targets.get(decision.instant)
        if decision.action != "rollback" or view.may_live(decision.instant):
            continue
        if target is not None and timeline.completion_time(target) is not None:
            continue  # `commit-half-rolled-back`
        # Without an instant the command ends all rollbacks that it may; what it leaves needs the operator's word.
        stopped = ("--writers", "stopped") if decision.step is Step.LEAVE else ()
        yield Symptom(
            subject=f"rollback {decision.instant}",
            evidence=(f"it rolls back {target or 'an unknown instant'}; it is {view.age(decision.instant)}",),
            **_undo(view, decision, "rollback", *stopped),
        )


def failed_writes(view: DoctorView) -> Iterator[Symptom]:
    for decision in view.decisions:
        if decision.action in WRITE_ACTIONS and decision.step is Step.ROLL_BACK and not view.may_live(decision.instant):
            yield _left_behind(view, decision)


def stuck_services(view: DoctorView) -> Iterator[Symptom]:
    for decision in view.decisions:
        if decision.action not in {*WRITE_ACTIONS, "rollback"} and decision.step is not Step.LEAVE:
            yield _left_behind(view, decision)


def _left_behind(view: DoctorView, decision: RollbackDecision) -> Symptom:
    verb = "metadata abort-indexing" if decision.step is Step.ABORT else "rollback"
    return Symptom(
        subject=f"{decision.action} {decision.instant}",
        evidence=(f"{decision.why}; it is {view.age(decision.instant)}", *_files_of(view, decision.instant)),
        **_undo(view, decision, verb, decision.instant),
    )


def _files_of(view: DoctorView, instant: str) -> Iterator[str]:
    files = [path for path in view.snapshot.uncommitted_files if instant in path.rpartition("/")[2]]
    if files:
        yield f"it left {format_count(len(files), 'data file')}, such as {min(files)}"


class _Remedy(TypedDict, total=False):
    remedy: Required[str]
    command: str
    dry_run: str


def _undo(view: DoctorView, decision: RollbackDecision, verb: str, *rest: str) -> _Remedy:
    """What a decision says to do; on a table that may not be rolled back, why not."""
    for refusal in view.refusals:
        if TableService.ROLLBACK in refusal.services:
            return {"remedy": f"Lakeward rolls nothing back here: {refusal.why} {refusal.remedy}"}
    return {"remedy": decision.sentence, **view.act(verb, *rest)}
