"""Clustering as a service of the daemon: are there enough small file groups, and the job that packs them.

Packing is on by default, so it does nothing that an operator has to fear: it is published only while no write is at
work in its partitions, what writers change meanwhile is not published, and what it takes on beside them grows and
shrinks with what came of it (`plan/pauses.py`). A table that Hudi clusters is left to Hudi.

    small file groups, none busy        -> due, within what a day may pack
    by columns that are named           -> due where a filter would read less, or a fifth of the file groups is small
    all of them in busy partitions      -> waits for the next poll that finds one free, and says so
    given up lately                     -> waits, and says until when
    a write that left no heartbeat      -> waits for a day

What there is to pack is planned again when the timeline has changed, but for large tables no more often than a
hundredth of the time goes into it.

Touches: the table, through `services/clustering/run/clusterer.py`; where there is something to pack it reads what
         clusterings of the active timeline did, each once, and when the folder of heartbeats changed.
Keeps:   1. file groups that are parked or paused are left out, those that a commit on the timeline laid out by columns
            or an undo there brought back, and partitions that the configuration leaves out;
         2. no clustering is begun while writes are at work in all partitions with small file groups, before a while
            is over, or where the day has had its bytes; the page says which of these it is;
         3. where a clustering of Hudi's is on the timeline, none is begun, unless services share the table;
         4. what writers prevent is no failure: the job ends with nothing done, and the next one comes later;
         5. for a day after a write that left no heartbeat none is begun;
         6. by columns, nothing is begun in a partition where it does not pay (`plan/depth_rule.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

from lakeward.base.errors import Conflict, LakewardError, TryLater
from lakeward.base.quantities import DAY_SECONDS, format_count, format_size, format_time
from lakeward.format.timeline.commit_metadata import read_commit_metadata
from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.job_report import JobFigures, JobReport, JobResult, ProblemKind, WorkProblem
from lakeward.protocol.pause_of_writers import has_heartbeat, left_no_heartbeat, writes_at_work
from lakeward.protocol.problem import problem_of
from lakeward.protocol.refusals.eligibility import TableService
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.clustering.metrics import METRICS
from lakeward.services.clustering.plan.depth_rule import (
    RUNS_MANY,
    DepthVerdict,
    PartitionDepth,
    Pays,
    judge_depth,
    what_pays,
)
from lakeward.services.clustering.plan.layout_plan import plan_layout
from lakeward.services.clustering.plan.layout_record import LayoutRecord
from lakeward.services.clustering.plan.pack_options import PackOptions
from lakeward.services.clustering.plan.pack_plan import PackPlan, plan_packing
from lakeward.services.clustering.plan.pauses import WriterPauses
from lakeward.services.clustering.plan.run_record import RunRecord, read_record
from lakeward.services.clustering.run.layout_records import load_layout_records
from lakeward.services.clustering.settings import ClusteringSettings
from lakeward.services.service import Care, Fact, JobOrder, JobTraits, Service, ServiceDemand, TableFacts
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline.instant_content import InstantContents
from lakeward.table.timeline.service_instants import SERVICES_OF_ONE

if TYPE_CHECKING:
    from lakeward.protocol.section import SettingsSection
    from lakeward.services.clustering.run.clusterer import ClusteringReport

    S = TypeVar("S", bound=SettingsSection)

LAZY = "hoodie.clean.failed.writes.policy=LAZY"
_TIMES_ITS_COST = 100.0


class _TableKeys(Protocol):
    """What the configuration says of a table."""

    def section(self, of: type[S]) -> S: ...

    @property
    def shares_services(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class ClusteringRules:
    options: PackOptions
    bytes_per_day: int | None
    shares_table: bool
    """Another service may work on the table, too."""


class Packable(NamedTuple):
    """File groups that become new ones: what is remembered of them, since their slices are most of a table's memory."""

    partition_path: str
    groups: int
    bytes: int


@dataclass(frozen=True, slots=True)
class ClusteringLook:
    """What there was to pack when that was planned last."""

    at: tuple[str, ...]
    """The newest completed write then, and the pending services, which hold file groups: one may end after a write that
    was requested later."""
    again_at: float
    """It is not planned again before."""
    packed: tuple[Packable, ...]
    runs: tuple[RunRecord, ...]
    """Clusterings on the active timeline, oldest first."""
    depth: str = ""
    """What a filter reads in the partition where it reads most of those that were looked at; empty without columns."""


@dataclass(frozen=True, slots=True)
class _LeftNone:
    """A write whose writer had no heartbeat, so that it may be an eager one."""

    write: str
    until: float
    """So long nothing is begun beside its writer."""


@dataclass(slots=True)
class ClusteringMemory:
    look: ClusteringLook | None = None
    """None before the first, and after a job."""
    pauses: WriterPauses = field(default_factory=WriterPauses)
    waiting_since: float | None = None
    """Since when there is something to pack and writers prevent it; None: they do not."""
    records: Mapping[str, RunRecord | None] = field(default_factory=dict)
    """What was read of commits, by the name of the timeline file."""
    why: str = ""
    """What it waits for."""
    left_none: _LeftNone | None = None


class ClusteringService(Service[ClusteringRules]):
    kind = JobKind.CLUSTERING
    permission = TableService.CLUSTERING
    jobs: Final = {JobKind.CLUSTERING: JobTraits(rank=1, waits_for_window=True, takes_memory=True)}
    metrics = METRICS

    def is_asked_for(self, table: _TableKeys) -> bool:
        return bool(table.section(ClusteringSettings).model_fields_set)

    def new_memory(self) -> ClusteringMemory:
        return ClusteringMemory()

    def rules(self, table: _TableKeys) -> ClusteringRules:
        section = table.section(ClusteringSettings)
        return ClusteringRules(section.options, section.bytes_per_day, table.shares_services)

    def demand(self, facts: TableFacts, care: Care[ClusteringRules]) -> Mapping[JobKind, ServiceDemand]:
        return {self.kind: _demand(facts, care)}

    def run(self, table: ServicedTable, care: Care[ClusteringRules], order: JobOrder) -> JobReport:
        memory: ClusteringMemory = care.memory
        scanned, now = order.scanned(), table.clock.now()
        if left := _left_to_hudi(scanned, care):
            return JobReport(JobResult.NOTHING, own=left)
        options = care.rules.options
        memory.records, runs = _runs(table, scanned, memory.records)
        if not order.at_once:
            options = replace(options, bytes_max=_bytes_max(care.rules, memory.pauses, runs, now))
        partitions: Collection[str] = _free_partitions(scanned, care, memory.pauses, now)
        depth = ""
        if options.layout.columns:
            planned = _planned(table, scanned, care, partitions=partitions, excluded=_excluded(care, memory))
            partitions, options = _part_of(planned, options)
            depth = planned.depth
        memory.look = None
        try:
            work = _work()
            report = work.cluster(
                table,
                options,
                order.choose,
                order.task(work.run_task_at),
                partitions=partitions,
                excluded=_excluded(care, memory),
                depth=depth,
            )
        except (Conflict, TryLater) as error:
            return _given_up(memory, error, options, table.clock.now())
        if report.instant is not None:
            memory.pauses, memory.waiting_since, memory.why = memory.pauses.published(), None, ""
        return _reported(report)

    def preview(self, table: ServicedTable, care: Care[ClusteringRules], order: JobOrder) -> PackPlan | str:
        """The plan, or why there is none."""
        snapshot = table.snapshot(service=self.permission)
        if left := _left_to_hudi(snapshot, care):
            return left
        care.memory.records, _ = _runs(table, snapshot, care.memory.records)
        selected, excluded = care.selected(snapshot.partitions), _excluded(care, care.memory)
        return _planned(table, snapshot, care, partitions=selected, excluded=excluded).plan

    def shown(self, memory: ClusteringMemory) -> Sequence[Fact]:
        look = memory.look
        if look is None:
            return ()
        facts = []
        if look.packed:
            groups = format_count(sum(each.groups for each in look.packed), "file group")
            partitions = format_count(len({each.partition_path for each in look.packed}), "partition")
            size = format_size(sum(each.bytes for each in look.packed))
            facts.append(Fact("Small file groups", f"{groups} of {size} in {partitions} can become {len(look.packed)}"))
        if look.depth:
            facts.append(Fact("Layout", f"{look.depth}"))
        if look.runs:
            last = look.runs[-1]
            before = f". Before it: {last.depth_before}" if last.depth_before else ""
            facts.append(Fact("Last clustering", f"{last.sentence}, at {format_time(last.completed_at)}{before}"))
        if memory.waiting_since is not None:
            facts.append(Fact("Clustering waits", f"since {format_time(memory.waiting_since)}: {memory.why}"))
        return facts

    def concerns(self, memory: ClusteringMemory) -> Sequence[str]:
        return ("clustering finds no pause of the writers",) if memory.pauses.given_up >= 5 else ()


class _Work(NamedTuple):
    cluster: Callable[..., ClusteringReport]
    run_task_at: Callable[..., Any]
    partition_depths: Callable[..., Mapping[str, PartitionDepth]]


def _work() -> _Work:
    """It loads the kernels: only once there is something to cluster."""
    from lakeward.services.clustering.run import clusterer, partition_depths, tasks

    return _Work(clusterer.cluster, tasks.run_task_at, partition_depths.partition_depths)


def _demand(facts: TableFacts, care: Care[ClusteringRules]) -> ServiceDemand:
    """Whether there is something to pack, and nothing that it waits for."""
    snapshot, memory, now = facts.snapshot, care.memory, facts.clock.now()
    memory.left_none = _left_none(facts, memory.left_none, now)
    if left := _left_to_hudi(snapshot, care):
        memory.look, memory.waiting_since = None, None
        return ServiceDemand(False, left)
    look = memory.look = _looked(facts, care)
    if not look.packed:
        memory.waiting_since = None
        return ServiceDemand(False)
    groups = sum(each.groups for each in look.packed)
    free = _free_partitions(snapshot, care, memory.pauses, now)
    cap = _bytes_max(care.rules, memory.pauses, look.runs, now)
    due = [each for each in look.packed if each.partition_path in free and each.bytes <= cap]
    if due and memory.pauses.until <= now and memory.left_none is None:
        size = min(sum(each.bytes for each in due), cap)
        why = f"{format_count(groups, 'small file group')} can become {len(look.packed)}"
        if look.depth:
            columns = ", ".join(care.rules.options.layout.columns)
            why = f"{format_count(groups, 'file group')} can be laid out by {columns}: {look.depth}"
        return ServiceDemand(True, why, file_groups=groups, read_bytes=size, write_bytes=size)
    why, again_at = _held(facts, care, look, now)
    memory.why = why
    if memory.waiting_since is None:
        memory.waiting_since = now
    text = f"{format_count(groups, 'small file group')} wait: {why}"
    return ServiceDemand(False, text, file_groups=groups, due_at=again_at)


def _left_none(facts: TableFacts, known: _LeftNone | None, now: float) -> _LeftNone | None:
    """It is seen at this poll, or was lately: a heartbeat of Lakeward's own next job hides it."""
    write = left_no_heartbeat(facts.storage, facts.snapshot)
    if write is not None and facts.open is not None and not facts.open().options.writers_stopped:
        return _LeftNone(f"{write.action} {write.time}", now + DAY_SECONDS)
    return known if known is not None and known.until > now else None


def _looked(facts: TableFacts, care: Care[ClusteringRules]) -> ClusteringLook:
    snapshot, memory, now = facts.snapshot, care.memory, facts.clock.now()
    look: ClusteringLook | None = memory.look
    at = tuple(each.time for each in snapshot.timeline.completed_writes[-1:])
    at += tuple(each.time for each in snapshot.timeline.pending if each.action in SERVICES_OF_ONE)
    if look is not None and (look.at == at or now < look.again_at):
        return look
    began = facts.clock.monotonic()
    selected = care.selected(snapshot.partitions)
    memory.records, runs = _runs(facts, snapshot, memory.records)
    planned = _planned(facts, snapshot, care, partitions=selected, excluded=_excluded(care, memory))
    took = facts.clock.monotonic() - began
    packed = tuple(Packable(each.partition_path, len(each.slices), each.bytes) for each in planned.plan.packed)
    return ClusteringLook(at, now + took * _TIMES_ITS_COST, packed, runs, planned.depth)


class _Planned(NamedTuple):
    plan: PackPlan
    verdicts: Mapping[str, DepthVerdict] = {}
    """Maps the path of a partition to its verdict, where rows are brought together by columns."""
    depth: str = ""


def _planned(
    at: TableFacts | ServicedTable,
    snapshot: TableSnapshot,
    care: Care[ClusteringRules],
    *,
    partitions: Collection[str] | None,
    excluded: Collection[GroupId],
) -> _Planned:
    """What there is to pack, or to bring together by columns, in parts that a clustering may take at once."""
    options = care.rules.options
    if not options.layout.columns:
        return _Planned(plan_packing(snapshot, options, partitions=partitions, excluded=excluded))
    together = min(options.together_bytes, max(care.memory.pauses.bytes_max, options.target_bytes))
    layout = options.layout.chosen(is_lsm_tree=snapshot.config.is_lsm_tree)
    options = replace(options, layout=layout, together_bytes=together)
    known = {name: each.layouts if each else {} for name, each in care.memory.records.items()}
    records = load_layout_records(at.storage, snapshot.base_path, snapshot, known=known)
    new = plan_layout(snapshot, options, records, partitions=partitions, excluded=excluded)
    runs = _runs_of_partitions(care.memory.records, records)
    looked_at = {each.partition_path for each in new.packed}
    looked_at |= {path for path, number in runs.items() if number >= RUNS_MANY}
    looked_at |= _last_laid_out(care.memory.records)
    if partitions is not None:
        looked_at &= set(partitions)
    # The partitions of the newest clustering may be gone.
    if not any(each.partition_path in looked_at for each in snapshot.latest_slices):
        return _Planned(new)
    depths = _work().partition_depths(at.storage, snapshot, options, looked_at, runs=runs, clock=at.clock)
    verdicts = {path: judge_depth(depth) for path, depth in depths.items()}
    entire = {path for path, verdict in verdicts.items() if verdict.pays is Pays.ALL}
    whole = plan_layout(snapshot, replace(options, again=True), records, partitions=entire, excluded=excluded)
    worst = max(depths, key=lambda path: depths[path].reads or 0.0)
    return _Planned(what_pays(new, whole, verdicts), verdicts, f"in {worst or 'the table'} {verdicts[worst].why}")


def _last_laid_out(commits: Mapping[str, RunRecord | None]) -> frozenset[str]:
    """The partitions of the newest clustering by columns, so that the page shows what came of it."""
    runs = [each for each in commits.values() if each is not None and each.layouts]
    last = max(runs, key=lambda run: run.completed_at, default=None)
    return frozenset() if last is None else frozenset(path for path, _ in last.layouts)


def _runs_of_partitions(
    commits: Mapping[str, RunRecord | None], records: Mapping[GroupId, LayoutRecord]
) -> Mapping[str, int]:
    """How many clusterings on the active timeline laid out file groups that are there, by partition."""
    found: Counter[str] = Counter()
    for commit in commits.values():
        if commit is not None:
            found.update({path for path, file_id in commit.layouts if (path, file_id) in records})
    return found


def _part_of(planned: _Planned, options: PackOptions) -> tuple[Collection[str], PackOptions]:
    """What one clustering takes of it: all of a partition, where one is to be laid out again and the cap allows it,
    else what is new in all of them."""
    plan, size = planned.plan, Counter[str]()
    for each in plan.packed:
        size[each.partition_path] += each.bytes
    entire = {path for path in size if (found := planned.verdicts.get(path)) and found.pays is Pays.ALL}
    for path in sorted(entire):
        if options.bytes_max is None or size[path] <= options.bytes_max:
            return (path,), replace(options, again=True)
    return size.keys() - entire, options


def _runs(
    at: TableFacts | ServicedTable, snapshot: TableSnapshot, known: Mapping[str, RunRecord | None]
) -> tuple[Mapping[str, RunRecord | None], tuple[RunRecord, ...]]:
    """What was read of commits, and the clusterings among them, oldest first."""
    timeline, config = snapshot.timeline, snapshot.config
    contents = InstantContents(at.storage, snapshot.base_path, config, timeline)
    records: dict[str, RunRecord | None] = {}
    for each in timeline.completed_writes:
        if each.action != "replacecommit":
            continue
        name = each.file_name
        if name in known:
            records[name] = known[name]
            continue
        try:
            commit = read_commit_metadata(contents.read(name), file=name, layout=config.layout)
        except LakewardError:
            records[name] = None
            continue
        records[name] = read_record(commit, instant=each.time, completed_at=timeline.modified[name])
    return records, tuple(sorted((each for each in records.values() if each), key=lambda run: run.completed_at))


def _excluded(care: Care[ClusteringRules], memory: ClusteringMemory) -> frozenset[GroupId]:
    """What is parked or paused, what an undo brought back, and what an operator had laid out by columns, which packing
    would undo. By columns the plan leaves that alone itself, until it has grown."""
    runs = [each for each in memory.records.values() if each is not None]
    excluded = frozenset(care.excluded).union(*(each.brought_back for each in runs))
    if care.rules.options.layout.columns:
        return excluded
    return excluded.union(*(each.layouts for each in runs))


def _left_to_hudi(snapshot: TableSnapshot, care: Care[ClusteringRules]) -> str:
    """Why the table is not clustered: the newest clustering that Lakeward did not make. Its own are no `clustering` on
    the timeline."""
    hudis = max((each.time for each in snapshot.timeline.instants if each.action == "clustering"), default=None)
    if hudis is None or care.rules.shares_table:
        return ""
    pending = any(each.time == hudis for each in snapshot.timeline.pending)
    return (
        f"Not clustered: clustering {hudis} on the timeline is not Lakeward's, so the table is left to what made it. "
        "Set foreign_services to share where both should."
        + (f" It is pending: where its engine is gone, `lakeward rollback TABLE {hudis}` ends it." if pending else "")
    )


def _free_partitions(
    snapshot: TableSnapshot, care: Care[ClusteringRules], pauses: WriterPauses, now: float
) -> frozenset[str]:
    selected = care.selected(snapshot.partitions)
    free = pauses.free(snapshot.partitions if selected is None else selected, now)
    return frozenset(path for path in free if next(writes_at_work(snapshot, (path,)), None) is None)


def _bytes_max(rules: ClusteringRules, pauses: WriterPauses, runs: Sequence[RunRecord], now: float) -> int:
    """What the next clustering may take."""
    if rules.bytes_per_day is None:
        return pauses.bytes_max
    today = sum(each.bytes_before for each in runs if each.completed_at > now - DAY_SECONDS)
    # One file group of the target's size always fits, or a long pause that was once missed would stop it for good.
    return min(max(pauses.bytes_max, rules.options.target_bytes), max(0, rules.bytes_per_day - today))


def _held(facts: TableFacts, care: Care[ClusteringRules], look: ClusteringLook, now: float) -> tuple[str, float | None]:
    """What it waits for, and when that may be over though nothing changes."""
    snapshot, memory = facts.snapshot, care.memory
    pauses: WriterPauses = memory.pauses
    paths = {each.partition_path for each in look.packed}
    tries = f"given up {pauses.given_up:,} times in a row, the last: {pauses.why}"
    if memory.left_none is not None:
        return f"{memory.left_none.write} left no heartbeat: set {LAZY} for its writer.", memory.left_none.until
    if pauses.until > now:
        return f"{tries} Next try at {format_time(pauses.until)}.", pauses.until
    free = pauses.free(paths, now)
    if not free:
        until = pauses.next_try(now)
        assert until is not None, "a while keeps the partitions from being free"
        return f"{tries} Next try at {format_time(until)}.", until
    for path in free:
        if (write := next(writes_at_work(snapshot, (path,)), None)) is not None:
            why = f"{write.action} {write.time} is at work, or was left by a process that died."
            if not has_heartbeat(facts.storage, snapshot.base_path, write):
                why += f" It has no heartbeat: set {LAZY} for its writer."
            return why, pauses.next_try(now)
    today = [each for each in look.runs if each.completed_at > now - DAY_SECONDS]
    until = today[0].completed_at + DAY_SECONDS if today else None
    most = "" if care.rules.bytes_per_day is None else f" ({format_size(care.rules.bytes_per_day)})"
    return f"what may be packed in 24 hours was packed{most}.", until


def _given_up(memory: ClusteringMemory, error: Conflict | TryLater, options: PackOptions, now: float) -> JobReport:
    text = problem_of(error).text
    if isinstance(error, Conflict):
        group = error.file_group
        taken = memory.pauses.bytes_max if options.bytes_max is None else options.bytes_max
        memory.pauses = memory.pauses.met_writer(None if group is None else group[0], taken, text, now)
    else:
        memory.pauses = memory.pauses.not_found(text, now)
    if memory.waiting_since is None:
        memory.waiting_since = now
    memory.why = text
    problem = WorkProblem(ProblemKind.TEMPORARY, text)
    return JobReport(JobResult.NOTHING, JobFigures(clusterings_given_up=1), problems=(problem,), own=text)


def _reported(report: ClusteringReport) -> JobReport:
    if report.instant is None:
        return JobReport(JobResult.NOTHING, own=report)
    figures = JobFigures(
        read_bytes=report.plan.input_bytes,
        written_bytes=report.output_bytes,
        rows_written=report.rows,
        groups_clustered=report.plan.input_groups,
    )
    return JobReport(JobResult.COMMITTED, figures, (report.instant,), own=report)


SERVICE = ClusteringService()
