"""The checks of `lakeward doctor` about what is left behind, and what makes a table slower or larger than it has to be.

Touches: nothing; what a check needs, `doctor_view` reads.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from lakeward.base.quantities import format_size, format_time
from lakeward.protocol.refusals.eligibility import TableService
from lakeward.services.clean.plan.orphans import OrphanKeeper
from lakeward.services.clustering.plan.pack_options import PackOptions
from lakeward.services.clustering.plan.pack_plan import PackedGroup, plan_packing
from lakeward.services.together.doctor.diagnosis import Symptom
from lakeward.services.together.doctor.doctor_view import DoctorView


def orphan_files(view: DoctorView) -> Iterator[Symptom]:
    old = [each for each in view.orphans if each.is_recordable and OrphanKeeper.YOUNG not in each.keepers]
    instants = defaultdict(list)
    for each in [*(each for each in view.orphans if each.is_removable), *old]:
        instants[each.instant].append(each)
    for instant, found in sorted(instants.items()):
        by = found[0].by
        why = f"rollback {by} names its instant" if by is not None else "neither timeline has its instant"
        files = {each.file.path: each.file for each in found}
        yield Symptom(
            subject=f"files of instant {instant}",
            evidence=tuple(
                f"{path} of {format_size(file.size)}, unchanged since {format_time(file.modified)}: {why}"
                for path, file in sorted(files.items())
            ),
            remedy="Set the files aside. The first call records them, a later one takes away what is still there a day "
            "later, and `lakeward quarantine restore` puts it back.",
            **view.act("quarantine orphans"),
        )


def dead_markers(view: DoctorView) -> Iterator[Symptom]:
    pending = {instant.time for instant in view.snapshot.timeline.pending}
    dead = {time: number for time, number in view.marked.items() if time.isdigit() and time not in pending}
    for time in sorted({*dead, *view.heartbeats}):
        evidence = []
        if time in dead:
            evidence.append(f".hoodie/.temp/{time} has files or folders: {dead[time]:,}")
        if time in view.heartbeats:
            evidence.append(f".hoodie/.heartbeat/{time} beats no more")
        yield Symptom(
            subject=f"instant {time}",
            evidence=(*evidence, "the timeline has nothing pending at that time"),
            remedy="Delete what is named, once no process is at work on the table: no reader looks at it, and data "
            "files of that instant count as orphan files only then.",
            command=view.command("explain", "--instant", time),
        )


def small_files(view: DoctorView) -> Iterator[Symptom]:
    if view.refusal_of(TableService.CLUSTERING) is not None:
        return  # no service would pack them
    packed: dict[str, list[PackedGroup]] = defaultdict(list)
    for group in plan_packing(view.snapshot, PackOptions()).packed:
        packed[group.partition_path].append(group)
    for path, groups in sorted(packed.items()):
        files, size = sum(len(group.slices) for group in groups), sum(group.bytes for group in groups)
        yield Symptom(
            subject=f"partition '{path}'",
            evidence=(f"{files:,} file groups of {format_size(size)} would become {len(groups):,}",),
            remedy="Pack them; the daemon does so by itself where clustering is not turned off.",
            **view.act("cluster"),
        )


def archiving_held(view: DoctorView) -> Iterator[Symptom]:
    plan = view.archiving
    if (limit := plan.blocked_by) is not None:
        yield Symptom(
            subject="active timeline",
            evidence=(
                f"{plan.commits:,} completed commits, where {plan.options.commits_max:,} are the limit",
                f"none may go from {limit.instant} on: {limit.why}",
            ),
            remedy="End what holds the archiver, and it goes on by itself: what is pending with `lakeward rollback` or "
            "`lakeward compact`, a savepoint with `lakeward savepoint delete`.",
            command=view.command("explain", "--instant", limit.instant),
        )
