"""What breaks tables, by experience: the catalogue of `lakeward doctor`, and what looks for each pattern.

What loses or doubles rows comes first. A check asks what the services ask before they work, so that a pattern is wrong
here only where they are.

    files        plans and partitions whose files are gone, files that are not what their commits say
    plans        pending plans that others have overtaken
    stuck work   what a dead process left half done
    clocks       instants that hide others
    the table    properties, timeline and metadata table that cannot be relied on

Touches: nothing; what a check needs, `doctor_view` reads.
Keeps:   1. each symptom has evidence of this table, and says what to do;
         2. a command that deletes or writes stands beside its dry run.
See:     docs/operate/doctor.md, whose table a test holds equal to the catalogue
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Required, TypedDict

from lakeward.base.paths import join
from lakeward.base.quantities import format_count, format_time
from lakeward.format.file_name import parse_any_log
from lakeward.protocol.pending.pending_work import pending_work
from lakeward.protocol.pending.rollback import RollbackDecision, RollbackReason, Step
from lakeward.protocol.refusals.eligibility import Refusal, TableService
from lakeward.protocol.transition import ServiceAction
from lakeward.services.together.doctor.diagnosis import Grade, Pattern, Symptom
from lakeward.services.together.doctor.doctor_view import DoctorView
from lakeward.services.together.inspection import instants_in_future
from lakeward.table.damaged_file import DamagedFile, DamageKind
from lakeward.table.file_system_view import GroupId
from lakeward.table.timeline.timeline import WRITE_ACTIONS


class _Commands(TypedDict):
    command: str
    dry_run: str


def _act(view: DoctorView, verb: str, *rest: str) -> _Commands:
    """A command that changes the table, and its dry run."""
    return {"command": view.command(verb, *rest), "dry_run": view.command(verb, *rest, "--dry-run")}


def _group(group_id: GroupId) -> str:
    return f"file group {group_id[1]} of partition '{group_id[0]}'"


# ------------------------------------------------------------------------------------------------ files


def _plans_over_gone_files(view: DoctorView) -> Iterator[Symptom]:
    snapshot = view.snapshot
    for work in pending_work(snapshot):
        evidence = []
        for operation in work.plan.operations:
            if (operation.partition_path, operation.file_id) in snapshot.replaced:
                continue  # what was replaced is left out of the compaction
            named = (*([operation.base_file] if operation.base_file else []), *operation.log_files)
            for path in (join(operation.partition_path, name) for name in named):
                if path not in view.paths:
                    clean = view.deleted_by(path)
                    by = "" if clean is None else f", and clean {clean} deleted it"
                    evidence.append(f"it names {path}, which is not there{by}")
        if evidence:
            foreign = () if work.is_own else ("--foreign",)
            yield Symptom(
                subject=f"{_label(work.action)} {work.instant}",
                evidence=tuple(evidence),
                remedy="Bring the files back first, from a copy or with `lakeward quarantine list`. Where they are "
                "lost, remove the plan: it deletes nothing more, and the file groups can be compacted again.",
                **_act(view, "unschedule", work.instant, *foreign),
            )
    gone: dict[str, list[GroupId]] = defaultdict(list)
    for group_id, instant in snapshot.pending_clusterings.items():
        if group_id not in snapshot.live_groups and group_id not in snapshot.replaced:
            gone[instant].append(group_id)
    for instant, groups in sorted(gone.items()):
        yield Symptom(
            subject=f"clustering {instant}",
            evidence=tuple(f"it is to rewrite {_group(each)}, of which no file is there" for each in groups),
            remedy="Bring the files back first, from a copy or with `lakeward quarantine list`. Where they are lost, "
            "roll the plan back: it has replaced nothing, and holds its file groups as long as it is there.",
            **_act(view, "rollback", instant),
        )


def _label(action: ServiceAction) -> str:
    return "log compaction" if action is ServiceAction.LOG_COMPACTION else "compaction"


def _damaged(*, is_anchor: bool) -> Callable[[DoctorView], Iterator[Symptom]]:
    """The check for logs by which readers find the output of a log compaction, or for all other damage."""

    def check(view: DoctorView) -> Iterator[Symptom]:
        for file in sorted(view.snapshot.damage, key=lambda each: each.path):
            outputs = _found_by(view, file)
            if (outputs != ()) is not is_anchor:
                continue
            evidence = [file.what, *(f"log compaction {time} put its rows into another log" for time in outputs)]
            if file.size is None and (clean := view.deleted_by(file.path)) is not None:
                evidence.append(f"clean {clean} deleted it")
            command = "quarantine list" if is_anchor else "verify"
            yield Symptom(
                subject=file.path, evidence=tuple(evidence), remedy=file.remedy, command=view.command(command)
            )

    return check


def _found_by(view: DoctorView, file: DamagedFile) -> tuple[str, ...]:
    """The log compactions that named a log that is gone: readers find their outputs by it."""
    partition, _, name = file.path.rpartition("/")
    parsed = parse_any_log(name, native=True)
    if file.kind is not DamageKind.MISSING or parsed is None:
        return ()
    compactions = view.snapshot.log_compactions.get((partition, parsed.file_id), ())
    return tuple(each.instant for each in compactions if name in each.log_files)


def _gone_partitions(view: DoctorView) -> Iterator[Symptom]:
    for problem in view.gone_partitions:
        yield Symptom(subject=f"partition '{problem.subject}'", evidence=(problem.what,), remedy=problem.remedy)


def _unexplained_groups(view: DoctorView) -> Iterator[Symptom]:
    for group in view.snapshot.frozen:
        if not group.damage:
            yield Symptom(
                subject=_group((group.partition_path, group.file_id)),
                evidence=(f"at instant {group.instant}: {group.why}",),
                remedy="Find out who wrote the files of that instant; no service touches the file group until then.",
                command=view.command("explain", "--instant", group.instant),
            )


# ------------------------------------------------------------------------------------------------ plans


def _clusterings_overwritten(view: DoctorView) -> Iterator[Symptom]:
    for instant, groups in _replaced(view, view.snapshot.pending_clusterings.items()):
        yield Symptom(
            subject=f"clustering {instant}",
            evidence=groups,
            remedy="Roll the plan back before an engine carries it out: it has replaced nothing yet. Make Hudi plan "
            "another one afterwards.",
            **_act(view, "rollback", instant),
        )


def _compactions_overwritten(view: DoctorView) -> Iterator[Symptom]:
    snapshot = view.snapshot
    pending = [*snapshot.pending_compactions.items(), *snapshot.pending_log_compactions.items()]
    for instant, groups in _replaced(view, pending):
        yield Symptom(
            subject=f"compaction {instant}",
            evidence=groups,
            remedy="Carry the plan out with Lakeward, which leaves these file groups out and completes the rest.",
            **_act(view, "compact"),
        )


def _replaced(view: DoctorView, pending: Iterable[tuple[GroupId, str]]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The plans over file groups that are replaced already, each with these."""
    found: dict[str, list[str]] = defaultdict(list)
    for group_id, instant in pending:
        if (by := view.snapshot.replaced.get(group_id)) is not None:
            found[instant].append(f"its plan has {_group(group_id)}, which {by} has replaced")
    yield from ((instant, tuple(found[instant])) for instant in sorted(found))


def _cleans_of_planned_files(view: DoctorView) -> Iterator[Symptom]:
    plans = {
        join(operation.partition_path, name): work
        for work in pending_work(view.snapshot)
        for operation in work.plan.operations
        for name in (*([operation.base_file] if operation.base_file else []), *operation.log_files)
    }
    for clean, paths in sorted(view.planned_deletions.items()):
        if hit := sorted(path for path in paths if path in plans):
            yield Symptom(
                subject=f"clean {clean}",
                evidence=tuple(
                    f"it is going to delete {path}, which {_label(plans[path].action)} {plans[path].instant} is to read"
                    for path in hit
                ),
                remedy="Stop every engine that cleans, and carry the compaction out first. Any cleaner ends the clean.",
                **_act(view, "compact"),
            )


# ------------------------------------------------------------------------------------------------ stuck work


def _interrupted(action: str, refusal_id: str) -> Callable[[DoctorView], Iterator[Symptom]]:
    """The check for instants of an action that all services wait for, and that no process is at work on."""

    def check(view: DoctorView) -> Iterator[Symptom]:
        refusals = {refusal.subject: refusal for refusal in _refusals(view, {refusal_id})}
        for instant in view.snapshot.timeline.pending:
            refusal = refusals.get(instant.file_name)
            if instant.action == action and refusal is not None and not view.is_alive(instant.time):
                yield Symptom(
                    subject=f"{action} {instant.time}",
                    evidence=(
                        f"{instant.file_name} is {_age(view, instant.time)}, and no heartbeat beats",
                        refusal.why,
                    ),
                    remedy=refusal.remedy,
                    command=view.command("explain", "--instant", instant.time),
                )

    return check


def _rollbacks_not_ended(view: DoctorView) -> Iterator[Symptom]:
    timeline, targets = view.snapshot.timeline, view.snapshot.rollback_targets
    for decision in view.decisions:
        target = targets.get(decision.instant)
        if decision.action != "rollback" or decision.reason is RollbackReason.LIVE_WRITER:
            continue
        if target is not None and timeline.completion_time(target) is not None:
            continue  # `commit-half-rolled-back`
        # Without an instant the command ends all rollbacks that it may; what it leaves needs the operator's word.
        stopped = ("--writers", "stopped") if decision.step is Step.LEAVE else ()
        yield Symptom(
            subject=f"rollback {decision.instant}",
            evidence=(f"it rolls back {target or 'an unknown instant'}; it is {_age(view, decision.instant)}",),
            **_undo(view, decision, "rollback", *stopped),
        )


def _failed_writes(view: DoctorView) -> Iterator[Symptom]:
    for decision in view.decisions:
        if decision.action in WRITE_ACTIONS and decision.step is Step.ROLL_BACK:
            yield _left_behind(view, decision)


def _stuck_services(view: DoctorView) -> Iterator[Symptom]:
    for decision in view.decisions:
        if decision.action not in {*WRITE_ACTIONS, "rollback"} and decision.step is not Step.LEAVE:
            yield _left_behind(view, decision)


def _left_behind(view: DoctorView, decision: RollbackDecision) -> Symptom:
    verb = "metadata abort-indexing" if decision.step is Step.ABORT else "rollback"
    return Symptom(
        subject=f"{decision.action} {decision.instant}",
        evidence=(f"{decision.why}; it is {_age(view, decision.instant)}", *_files_of(view, decision.instant)),
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
    return {"remedy": decision.sentence, **_act(view, verb, *rest)}


def _age(view: DoctorView, instant: str) -> str:
    """When something of the instant changed last."""
    timeline = view.snapshot.timeline
    changed = max(timeline.modified[each.file_name] for each in timeline.instants if each.time == instant)
    return f"unchanged since {format_time(changed)}"


# ------------------------------------------------------------------------------------------------ clocks


def _future_instants(view: DoctorView) -> Iterator[Symptom]:
    if files := instants_in_future(view.snapshot, view.now):
        yield Symptom(
            subject="instants in the future",
            evidence=tuple(f"{file} lies after {format_time(view.now)}" for file in files),
            remedy="Set the clock that made it right, and stop the writers until that time has passed. Where the clock "
            "was right, --timezone must name the writers' zone.",
            command=view.command("inspect"),
        )


def _mixed_zones(view: DoctorView) -> Iterator[Symptom]:
    for refusal in _refusals(view, {"timezone-disagrees", "instants-out-of-order"}):
        yield Symptom(
            subject=refusal.subject,
            evidence=(refusal.why, *(each.says for each in view.snapshot.zone.evidence)),
            remedy=refusal.remedy,
            command=view.command("inspect"),
        )


# ------------------------------------------------------------------------------------------------ the table


def _broken(*ids: str) -> Callable[[DoctorView], Iterator[Symptom]]:
    """The check for what the services refuse by these ids."""

    def check(view: DoctorView) -> Iterator[Symptom]:
        for refusal in _refusals(view, ids):
            yield Symptom(
                subject=refusal.subject, evidence=(refusal.why,), remedy=refusal.remedy, command=view.command("inspect")
            )

    return check


def _refusals(view: DoctorView, ids: Collection[str]) -> Iterator[Refusal]:
    return (refusal for refusal in view.refusals if refusal.id in ids)


def _metadata_out_of_step(view: DoctorView) -> Iterator[Symptom]:
    report = view.metadata
    for partition in sorted({problem.check for problem in report.problems}):
        problems = [problem for problem in report.problems if problem.check == partition]
        yield Symptom(
            subject=f"partition {partition} of the metadata table",
            evidence=tuple(f"{problem.subject}: {problem.what}" for problem in problems),
            remedy=problems[0].remedy,
            **_act(view, "metadata disable"),
        )


PATTERNS: Sequence[Pattern] = (
    Pattern(
        code="plan-over-gone-files",
        grade=Grade.DANGER,
        title="A pending plan reads files that are gone",
        why="The plan fails each time that it is carried out, and its file groups are compacted no more. Hudi's "
        "cleaner has deleted such logs before they were in a base file: their rows are lost.",
        source="apache/hudi issues 13826, 19290 and 9257",
        check=_plans_over_gone_files,
    ),
    Pattern(
        code="clean-of-planned-files",
        grade=Grade.DANGER,
        title="A pending clean is about to delete what a pending plan reads",
        why="The next engine that cleans deletes the files, and the rows in their logs are lost with them.",
        source="apache/hudi issue 19290",
        check=_cleans_of_planned_files,
    ),
    Pattern(
        code="clustering-overwritten",
        grade=Grade.DANGER,
        title="A pending clustering has file groups that were overwritten since",
        why="Carried out, it writes the overwritten rows into new file groups, where readers find them again.",
        source="apache/hudi issues 18830 and 19074",
        check=_clusterings_overwritten,
    ),
    Pattern(
        code="damaged-files",
        grade=Grade.DANGER,
        title="Files are not what their commits say",
        why="Readers fail on the file, or are content with the rows that are left. A compaction would make that final.",
        source="apache/hudi issues 9257 and 7969",
        check=_damaged(is_anchor=False),
    ),
    Pattern(
        code="anchor-gone",
        grade=Grade.DANGER,
        title="A log is gone, and only it leads readers to what a log compaction wrote",
        why="Hudi's readers place the output of a log compaction by the newest log that it stands for. Without that "
        "log they pass over the rows of all of them in silence.",
        source="decision 0132 of Lakeward, tried with Hudi 1.2.0",
        check=_damaged(is_anchor=True),
    ),
    Pattern(
        code="partition-gone",
        grade=Grade.DANGER,
        title="A partition is not listed, though commits wrote rows into it",
        why="Its folder, or the partition metadata in it, is gone. Every reader is content with the other partitions.",
        source="apache/hudi issue 10885",
        check=_gone_partitions,
    ),
    Pattern(
        code="unexplained-file-group",
        grade=Grade.DANGER,
        title="It is unknown which files make up a file group",
        why="Two base files of one instant, or files of an instant that no timeline explains: engines may read "
        "different rows, and give deleted ones back.",
        source="upgrades by Hudi 1.2.0, tried; retried tasks without markers",
        check=_unexplained_groups,
    ),
    Pattern(
        code="restore-interrupted",
        grade=Grade.DANGER,
        title="A restore was begun and not completed",
        why="Some commits are taken back and others are not: readers see a state that there never was, and all "
        "services wait.",
        source="decision 0035 of Lakeward",
        check=_interrupted("restore", "pending-restore"),
    ),
    Pattern(
        code="commit-half-rolled-back",
        grade=Grade.DANGER,
        title="A commit that completed is being rolled back, and the rollback is not completed",
        why="Some of its files may be deleted already: readers fail on them, or see a part of the commit.",
        source="apache/hudi issue 8603",
        check=_interrupted("rollback", "pending-rollback"),
    ),
    Pattern(
        code="metadata-out-of-step",
        grade=Grade.DANGER,
        title="The metadata table lists other files than the storage",
        why="Readers that list by it fail on files that are gone, or miss the rows of files that it does not list.",
        source="apache/hudi issues 10628 and 4896",
        check=_metadata_out_of_step,
    ),
    Pattern(
        code="instant-in-future",
        grade=Grade.DANGER,
        title="An instant lies in the future",
        why="What is committed until then lies below it: readers of newer file slices pass over it, and Hudi refuses "
        "to roll failed writes back.",
        source="apache/hudi issue 5843",
        check=_future_instants,
    ),
    Pattern(
        code="mixed-zones",
        grade=Grade.DANGER,
        title="Writers are in several time zones, or their clocks disagree",
        why="The order of instants is not the order of the writes, so a later write may lose to an earlier one.",
        source="apache/hudi pull requests 8284 and 9794",
        check=_mixed_zones,
    ),
    Pattern(
        code="timeline-broken",
        grade=Grade.DANGER,
        title="The timeline has files that cannot be relied on",
        why="An instant whose file is empty or torn may or may not count, and engines differ in what they make of it.",
        source="apache/hudi pull request 18210, issue 17963",
        check=_broken("frozen-timeline", "broken-pending-plan", "unknown-action"),
    ),
    Pattern(
        code="version-change-interrupted",
        grade=Grade.DANGER,
        title="An upgrade or downgrade of the table was not clean",
        why="Properties, timeline and files are of different table versions: an engine of one version reads logs of "
        "the other as something else, or not at all.",
        source="apache/hudi issues 11835 and 9833",
        check=_broken("properties-backup", "properties-checksum", "timeline-layout", "native-log-name"),
    ),
    Pattern(
        code="compaction-overwritten",
        grade=Grade.WARNING,
        title="A pending compaction has file groups that were overwritten since",
        why="Hudi's cleaner takes these files although the plan names them. From then on Hudi fails on the plan, and "
        "none of its file groups is compacted.",
        source="decision 0037 of Lakeward, tried with Hudi 1.2.0",
        check=_compactions_overwritten,
    ),
    Pattern(
        code="failed-write-left",
        grade=Grade.WARNING,
        title="A write died and was not rolled back",
        why="Its instant holds back cleaning and archiving, and the first engine that takes it for its own ends it "
        "differently.",
        source="apache/hudi issue 1764",
        check=_failed_writes,
    ),
    Pattern(
        code="rollback-not-ended",
        grade=Grade.WARNING,
        title="The rollback of a failed write is not completed",
        why="No reader sees the write, but it is still there, and services wait for the rollback.",
        source="apache/hudi issue 8603",
        check=_rollbacks_not_ended,
    ),
    Pattern(
        code="service-stuck",
        grade=Grade.WARNING,
        title="A service died, and its plan holds file groups",
        why="No engine compacts, clusters or indexes these file groups until what the dead process left is gone.",
        source="apache/hudi issues 8567 and 19313",
        check=_stuck_services,
    ),
)
"""The worst first."""
