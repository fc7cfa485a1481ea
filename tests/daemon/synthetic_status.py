"""Statuses of daemons that never ran, for pages and gauges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from lakeward.config.job_card import card_of
from lakeward.config.settings import LockSettings, TableSettings, Writers
from lakeward.daemon.backlog_history import BacklogHistory
from lakeward.daemon.scheduling.demand import Demand
from lakeward.daemon.scheduling.outlook import Outlook
from lakeward.daemon.scheduling.scheduled_job import Job
from lakeward.daemon.scheduling.table_state import ParkedGroup, TableState
from lakeward.daemon.served_table import ServedTable
from lakeward.daemon.status import (
    ConfigStatus,
    DayTotal,
    EventStatus,
    GroupStatus,
    HoldStatus,
    InstantMark,
    JobEnd,
    JobPage,
    JobProgress,
    JobWait,
    LeaseStatus,
    Limitation,
    PlanStatus,
    ServicePhase,
    ServiceStatus,
    SettingLine,
    SparkState,
    SparkStatus,
    StorageSample,
    TablePage,
    TableStatus,
)
from lakeward.index.bloom.cache_coverage import CacheCoverage
from lakeward.index.bloom.log_coverage import LogCoverage, LogsSeen
from lakeward.index.build_state import BuildProgress
from lakeward.index.index_type import IndexType
from lakeward.index.key_changes.table_commits import Staleness
from lakeward.index.record.index_growth import IndexLoad
from lakeward.index.tee import Tee
from lakeward.index.update_choice import UpdateDecision, UpdateReason
from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.job_report import JobFigures
from lakeward.protocol.progress import Merged
from lakeward.services.clean.job import CleanMemory
from lakeward.services.clean.plan.decision import ConsumerHold
from lakeward.services.clustering.job import ClusteringMemory
from lakeward.services.compaction.plan.decision import Choice, Decision, Reason
from lakeward.services.indexing.index_memory import IndexMemory, IndexStatus, TeeStatus
from lakeward.services.metadata.job import MetadataMemory
from lakeward.services.metadata.plan.due_before_writers import MetadataTrigger
from lakeward.services.service import Fact, ServiceDemand
from lakeward.services.ttl.job import TtlLook, TtlMemory
from lakeward.state.records import AttemptRecord, CostRecord, ExaminationRecord, JobRecord, MonthlyCost
from lakeward.table.backlog import Backlog, GroupBacklog, PendingPlan

NOW = 1_800_000_000.0

MIB = 2**20
DAY = 86_400


def backlog(**changes: Any) -> Backlog:
    usual = Backlog(
        file_groups=40,
        slices=52,
        log_files=120,
        log_bytes=310 * MIB,
        superseded_log_files=17,
        superseded_log_bytes=40 * MIB,
        most_log_files=14,
        most_opened_log_files=19,
        opened_log_files=137,
        anchors=3,
        retirable_log_bytes=30 * MIB,
        base_bytes=5200 * MIB,
        oldest_unmerged_at=NOW - 1500,
        pending_plans=(),
        timeline_length=87,
        read_amplification=1.06,
        space_amplification=1.4,
    )
    return replace(usual, **changes)


FIGURES = JobFigures(
    full_operations=3,
    log_operations=9,
    read_bytes=340 * MIB,
    written_bytes=120 * MIB,
    log_files=62,
    log_bytes=180 * MIB,
    rows_written=1_204_331,
    rows_inserted=331,
    rows_updated=90_000,
    rows_deleted=12,
    merges={"hashes": 2, "order": 7},
    row_groups_copied=30,
    peak_memory_bytes=301 * MIB,
)


def job(table: str = "orders", figures: JobFigures = FIGURES, **changes: Any) -> JobRecord:
    usual = JobRecord(
        "j1",
        table,
        JobKind.COMPACTION.value,
        NOW - 200,
        instant="20270115075640123",
        ended_at=NOW - 170,
        result=JobEnd.COMMITTED.value,
        figures=asdict(figures),
    )
    return replace(usual, **changes)


def running_job(table: str = "orders", ratio: float = 0.42) -> tuple[Job, JobProgress]:
    job = Job("j2", table, JobKind.COMPACTION, {}, 12, 0, 0, 0, deadline=NOW + 2160, started_at=NOW - 24)
    merged = Merged(5, 12, int(ratio * 3 * 1024 * MIB), 3 * 1024 * MIB, 900 * MIB, 0, 200.0 * MIB, 9.0)
    return job, JobProgress("merging on Spark, file slices: 12", merged)


def waiting_job(table: str = "orders") -> tuple[Job, JobProgress]:
    job, progress = running_job(table)
    return job, replace(progress, wait=JobWait("the table lock .hoodie/.locks/lock is held by spark-7", NOW - 12))


def examination(*grades: str, **changes: Any) -> ExaminationRecord:
    """One with a finding of each of these grades."""
    found = [
        {
            "code": f"pattern-{number}",
            "grade": grade,
            "title": f"Pattern {number} is there",
            "why": "Rows are lost.",
            "source": "an issue",
            "tried": "A query gives each row.",
            "places": 7,
            "symptoms": [
                {
                    "subject": f"clean {place}",
                    "evidence": [f"file <{place}> is gone"],
                    "remedy": "Bring it back.",
                    "command": "lakeward compact /data/orders",
                    "dry_run": "lakeward compact /data/orders --dry-run",
                }
                for place in range(7)
            ],
        }
        for number, grade in enumerate(grades)
    ]
    document = {
        "base_path": "/data/lake/orders",
        "healthy": not found,
        "worst": next(iter(grades), None),
        "found": found,
        "unseen": [{"code": "doubled-keys", "why": "It takes long.", "by_choice": True}],
        "absent": ["small-files"],
    }
    return replace(ExaminationRecord(NOW - 7200, NOW - 7200, document), **changes)


INDEXES = IndexMemory(
    (
        IndexStatus(IndexType.METADATA, checked_at=NOW - 900, checked=9206, excluded_rate=0.001),
        IndexStatus(IndexType.RECORD, behind=Staleness(), behind_at=NOW - 60, load=IndexLoad(mean=0.314, fullest=0.52)),
        IndexStatus(
            IndexType.POSTGRES,
            behind=Staleness(3, 5_000_000, 600.0),
            behind_at=NOW - 60,
            update=UpdateDecision(UpdateReason.OFF),
        ),
        IndexStatus(
            IndexType.BLOOM,
            behind=Staleness(1, 400_000, 20.0),
            behind_at=NOW - 60,
            coverage=CacheCoverage(34, 37, 0, 0, Staleness(1, 400_000, 20.0), unread=2),
            update=UpdateDecision(UpdateReason.YOUNG, due_at=NOW + 10),
        ),
    ),
    builds={IndexType.RECORD: BuildProgress(12, 46, NOW - 300)},
    tee=TeeStatus(
        Tee(3, IndexType.METADATA, IndexType.RECORD, compared=12, keys=3400, clean=12), Staleness(2, 10, 60.0)
    ),
    doubled_keys=0,
    logs=LogsSeen(LogCoverage(40, 9_000_000, 10, 2_000_000, 3_000_000, 4_000_000)),
)


def table(
    name: str = "orders",
    state: TableState = TableState.IDLE,
    reason: str = "",
    *,
    outlook: dict[str, Any] | None = None,
    running: Sequence[tuple[Job, JobProgress]] = (),
    objective: float | None = 3600.0,
    base_path: str | None = None,
    **changes: Any,
) -> TableStatus:
    usual_outlook = Outlook(
        state=state,
        reason=reason or "Nothing is due; it is planned for again when its timeline changes.",
        holds=(),
        next_action="poll",
        next_action_at=NOW + 7,
        scanned_at=NOW - 3,
        scan_overdue=False,
        planned_at=NOW - 60,
        demand=Demand(
            0,
            services={
                JobKind.ROLLBACK: ServiceDemand(False),
                JobKind.CLEAN: ServiceDemand(True, "14 files of 1.2 GiB could go", files=14, bytes=1288490188),
                JobKind.METADATA_COMPACTION: ServiceDemand(False),
                JobKind.CLUSTERING: ServiceDemand(True, "212 small file groups can become 8", file_groups=212),
                JobKind.ARCHIVE: ServiceDemand(True, "26 instants could be archived", instants=26),
            },
        ),
        failures=0,
        parked_groups=(),
        paused_groups=(),
        running=tuple(job for job, _ in running),
    )
    usual = TableStatus(
        served=ServedTable(
            name,
            base_path or f"/data/lake/{name}",
            TableSettings(
                services=("compaction", "verification"),
                interval=10.0,
                objective=objective or "none",
                locks=LockSettings(writers=Writers.SHARE),
            ),
            NOW - 86_400,
        ),
        outlook=replace(usual_outlook, **(outlook or {})),
        progress={job.id: progress for job, progress in running},
        backlog=backlog(),
        write_amplification=2.31,
        last_job=job(name),
        last_success_at={JobKind.COMPACTION: NOW - 170},
        storage=storage_samples()[-1],
        examination=examination(),
        remembered={
            JobKind.METADATA_COMPACTION: MetadataMemory(
                trigger=MetadataTrigger(3, "20260101000000000", after=6, limit=10)
            ),
            JobKind.INDEX: INDEXES,
            JobKind.CLEAN: CleanMemory(consumers=CONSUMERS),
            JobKind.CLUSTERING: ClusteringMemory(),
            JobKind.TTL: TtlMemory(TtlLook(NOW + 60, 3, 1288490188, ("dt=2026-01-01",), None)),
        },
    )
    return replace(usual, **changes)


def service(*tables: TableStatus, **changes: Any) -> ServiceStatus:
    usual = ServiceStatus(
        name="lakeward",
        version="0.2.0",
        phase=ServicePhase.RUNNING,
        at=NOW,
        at_monotonic=1000.0,
        started_at=NOW - 93_784,
        tables=tables,
        limitations=(),
        config=ConfigStatus("/etc/lakeward/lakeward.toml", NOW - 4000),
        lease=LeaseStatus("host-1", len(tables), 1, True),
        jobs_max=2,
        memory_bytes=2048 * MIB,
        memory_reserved_bytes=512 * MIB,
        spark=SparkStatus(
            SparkState.UP, "local[*]", "http://host-1:4040", 'All jobs run on Spark, by service.engine = "spark".'
        ),
    )
    return replace(usual, **changes)


def varied_tables() -> tuple[TableStatus, ...]:
    """One in nearly every state."""
    group = ("dt=2027-01-14", "5c1e4f0a-95b0-4c8e-8c5e-1f6b0b3a4d55-0")
    return (
        table(
            "orders",
            TableState.RUNNING,
            "A compaction runs.",
            running=(running_job(),),
            outlook={"next_action": "", "demand": Demand(12, 60 << 30, 30 << 30)},
            history=a_history(),
        ),
        table(
            "customers",
            backlog=backlog(log_files=0, log_bytes=0, superseded_log_files=0, oldest_unmerged_at=None),
            last_job=job("customers", JobFigures(), service="clean", result="nothing", instant=None),
        ),
        table(
            "clickstream.events_raw",
            TableState.BACKING_OFF,
            "The last compaction failed; it is tried again, each time later than the time before.",
            outlook={"failures": 3, "next_action": "compaction", "next_action_at": NOW + 260},
            backlog=backlog(log_files=12_345, log_bytes=48_000 * MIB, oldest_unmerged_at=NOW - 11_000),
            last_job=job("clickstream.events_raw", result="failed", error="The disk was full."),
        ),
        table(
            "payments",
            TableState.SHADOW,
            "No operator said that Lakeward may write here: set locks.writers to share or stopped.",
            last_job=None,
            outlook={"next_action": "plan", "next_action_at": NOW + 420},
        ),
        table(
            "inventory",
            TableState.PARKED,
            "Five jobs failed in a row.",
            outlook={"next_action": "compaction", "next_action_at": NOW + 80_000, "failures": 5},
            last_job=job("inventory", result="verification"),
        ),
        table(
            "legacy_cow",
            TableState.REFUSED,
            "It is a copy-on-write table, and there is nothing to compact.",
            backlog=None,
            last_job=None,
            outlook={"next_action": "none", "next_action_at": None, "scanned_at": None},
        ),
        table(
            "shipments",
            TableState.QUEUED,
            "Two other tables are nearer to their objective; it is the first in the queue.",
            outlook={"next_action": "compaction", "next_action_at": None},
            backlog=backlog(
                oldest_unmerged_at=NOW - 3100,
                pending_plans=(PendingPlan("20270115070000000", "compaction", NOW - 700),),
            ),
        ),
        table(
            "sessions",
            TableState.PAUSED,
            "Paused by anna until the backfill is over.",
            outlook={
                "next_action": "none",
                "next_action_at": None,
                "parked_groups": (ParkedGroup(group, "x", NOW + 9),),
            },
        ),
        table(
            "broken",
            TableState.BACKING_OFF,
            "Tried again at 2027-01-15 08:02:00 UTC: .hoodie/hoodie.properties cannot be read.",
            outlook={
                "unreadable": "hoodie.properties cannot be read.",
                "next_action_at": NOW + 120,
                "scanned_at": None,
            },
            backlog=None,
            last_job=None,
        ),
        table("returns", TableState.PLANNING, "Its timeline changed.", outlook={"next_action": "plan"}),
        table("suppliers", TableState.WAITING, "Another daemon, host-2, holds its lease.", last_job=None),
        table("archive_2019", TableState.DISABLED, "It is disabled in the configuration file.", last_job=None),
    )


LIMITATION = Limitation(
    "The folder /data/lake/restricted cannot be listed (permission denied), so tables in it are not found.",
    "Let user lakeward read it, or take it out of discovery.roots.",
)

_HOSTILE = "<script>alert(1)</script>"


def hostile_tables() -> tuple[TableStatus, ...]:
    """Tables with names that no table should have, and some have."""
    return (
        table(_HOSTILE, TableState.REFUSED, f"{_HOSTILE} is refused."),
        table('"onmouseover="alert(2)', reason="{{ 7 * 7 }}"),
        table("/data/lake/" + "very_long_name_without_a_break_" * 8, TableState.RUNNING, running=(running_job(),)),
        table("/data/a b/ü/表?x=1#y%2F&lt;", base_path="s3://bucket/with spaces/" + "deep/" * 40),
        table("half\udce4"),
    )


def decision(choice: Choice = Choice.FULL, reason: Reason = Reason.LOG_RATIO, **changes: Any) -> Decision:
    numbers = {
        "base_bytes": 118 * MIB,
        "log_files": 7,
        "log_bytes": 22 * MIB,
        "median_log_bytes": 3 * MIB,
        "log_ratio": 0.1,
        "run_logs": 7,
        "log_num_threshold": 5,
        "log_size_threshold": 64 * MIB,
        "small_log_size": 16 * MIB,
    }
    return replace(Decision("dt=2027-01-14", "g", choice, reason, numbers), **changes)


def groups(number: int) -> tuple[GroupStatus, ...]:
    kinds = (
        decision(),
        decision(Choice.LOG, Reason.MANY_SMALL_LOGS),
        decision(Choice.NONE, Reason.BELOW_THRESHOLDS),
        decision(Choice.NONE, Reason.NO_LOGS),
        None,
    )
    return tuple(
        GroupStatus(
            partition_path=f"dt=2027-01-{1 + index % 28:02}",
            file_id=f"{index:08x}-95b0-4c8e-8c5e-1f6b0b3a4d55-0",
            slices=1 + index % 3,
            backlog=GroupBacklog(
                base_bytes=(index * 7919 % 400) * MIB,
                log_files=index % 11,
                log_bytes=(index % 11) * (index * 31 % 17) * MIB,
                superseded_log_files=index % 3,
                superseded_log_bytes=(index % 3) * MIB,
            ),
            decision=kinds[index % len(kinds)],
        )
        for index in range(number)
    )


CONSUMERS = (
    ConsumerHold("daily", "20270115050000000", "", commits=3, seconds_behind=7200.0),
    ConsumerHold("lost", None, "file:/gone cannot be read", commits=9, seconds_behind=None),
)


def storage_samples() -> tuple[StorageSample, ...]:
    """A month in which a savepoint was made, and half of it cleaned once a day."""
    return tuple(
        StorageSample(
            NOW - 3600 * (720 - hour),
            {
                "live": (4000 + 4 * hour) * MIB,
                "pinned": 900 * MIB if hour > 300 else 0,
                "retained": (300 + 5 * (hour % 24)) * MIB,
                "dead": (40 * (hour % 48)) * MIB,
                "uncommitted": 30 * MIB,
                "quarantined": 500 * MIB if hour % 48 < 24 else 0,
            },
        )
        for hour in range(0, 720, 3)
    )


def detail(of: TableStatus | None = None, **changes: Any) -> TablePage:
    of = of or varied_tables()[0]
    parked = groups(1)[0]
    usual = TablePage(
        table=of,
        at=NOW,
        facts=(
            Fact("Table version", "9"),
            Fact("Type", "MERGE_ON_READ"),
            Fact("Merge mode", "EVENT_TIME_ORDERING"),
            Fact("Record key", "order_id"),
        ),
        plans=(PlanStatus("20270115070000000", "compaction", NOW - 700, 12, "this service"),),
        groups=groups(230),
        ended=(
            job(of.name),
            job(of.name, JobFigures(), result="failed", error="The disk was full. Free space on it."),
            job(of.name, JobFigures(groups_verified=4), service="verification", instant=None),
        ),
        events=(
            EventStatus(NOW - 30, "planned", "12 operations chosen, 3 FULL and 9 LOG."),
            EventStatus(NOW - 86_000, "parked", "File group g was parked after a wrong result."),
        ),
        storage=storage_samples(),
        examination=of.examination,
        holds=(
            HoldStatus(
                "parked",
                of.name,
                (parked.partition_path, parked.file_id),
                "Its merge gave a wrong result.",
                NOW - 86_000,
                NOW + 400,
            ),
            HoldStatus("paused", of.name, None, "Backfill.", NOW - 60, None, by="anna"),
        ),
        planned_at=NOW - 60,
    )
    return replace(usual, **changes)


def busy_detail() -> TablePage:
    """A table of which everything is to be said: it works and waits, holds and plans are there, and costs."""
    busy = table(
        "orders",
        TableState.RUNNING,
        "Job j2 (compaction) runs since 2027-01-15 07:59:36 UTC. It is let finish, and then: Paused by anna: Backfill.",
        running=(waiting_job(),),
        outlook={"next_action": "end of compaction", "next_action_at": None, "scan_overdue": True},
        examination=examination("warning"),
        history=a_history(),
    )
    months = (
        MonthlyCost(
            "orders", "compaction", "2027-01", 412, 3, 9300.0, 660.0, 512 << 30, 96 << 30, 18e3, 21_345.6, None
        ),
        MonthlyCost("orders", "clean", "2027-01", 30, 0, 120.0, 0.0, 0, 0, None, None, None),
        MonthlyCost("orders", "compaction", "2026-12", 397, 0, 9100.0, 640.0, 498 << 30, 91 << 30, 17e3, 20e3, None),
    )
    services = ("compaction", "verification", "clean", "archive", "clustering", "rollback")
    usual = detail(busy, months=months)
    ended = tuple(
        replace(job("orders"), id=f"e{number}", service=service, began_at=NOW - 200 - 600 * number)
        for number, service in enumerate(services)
    )
    days = tuple(
        DayTotal(
            NOW // 86_400 * 86_400 - 86_400 * ago, 14, (20 + ago % 5) << 30, (3 + ago % 7) << 30, 700.0 + 30 * ago, 9e3
        )
        for ago in range(29, -1, -1)
        if ago != 12
    )
    settings = (SettingLine('interval = "10s"', "default"), SettingLine('objective = "1h"', "lakeward.toml:12:1"))
    return replace(usual, ended=ended, timeline=instants(), days=days, settings=settings)


def instants() -> tuple[InstantMark, ...]:
    """A day of deltacommits, with services among them and a compaction under way."""
    actions = [("deltacommit", False)] * 5 + [("commit", True), ("clean", True), ("deltacommit", False)]
    marks = []
    for number in range(120):
        action, is_own = actions[number % 8]
        marks.append(InstantMark(f"{number:017}", action, "completed", NOW - 86_400 + 700 * number, is_own))
    return (*marks, InstantMark(f"{999:017}", "compaction", "inflight", NOW - 300, True))


def a_history() -> BacklogHistory:
    """An hour and a half in which logs gathered and were merged twice."""
    history = BacklogHistory()
    for minute in range(90):
        since = minute % 40
        seen = backlog(log_bytes=since * 9 * MIB, read_amplification=1 + since / 200, oldest_unmerged_at=NOW - 60 * 90)
        history = history.seen(NOW - 60 * (90 - minute), seen)
    return history


COST = CostRecord(
    *("j1", "orders", "compaction", "2027-01", NOW - 170, "committed", 30.0, 4.0),
    read_bytes=FIGURES.read_bytes,
    written_bytes=FIGURES.written_bytes,
    predicted_seconds=22.0,
    cpu_seconds=31.0,
    saved_seconds_a_day=86_400.0,
    detail={
        "phases": {"lock_wait": 3.0, "plan": 1.5, "merge": 18.0, "commit": 2.5},
        "reasons": {"log-ratio": 3, "many-small-logs": 9},
    },
)


def job_page(job_id: str = "j1", of: TableStatus | None = None, **changes: Any) -> JobPage | None:
    """`j1` has ended, `j2` runs and waits; no other is known."""
    of = of or table("orders", TableState.RUNNING, running=(waiting_job(),))
    if job_id not in ("j1", "j2"):
        return None
    decisions = tuple(group.decision for group in groups(24) if group.decision is not None)
    usual = JobPage(
        record=job(of.name),
        at=NOW,
        table=of,
        running=None,
        progress=None,
        card=card_of(COST, (), now=NOW),
        attempts=(AttemptRecord("j1-0", "j1", NOW - 200, "20270115075640123", "host-1", NOW - 170, "committed"),),
        events=(EventStatus(NOW - 170, "compaction", "20270115075640123: 3 FULL, 9 LOG"),),
        chosen=tuple(each for each in decisions if each.choice is not Choice.NONE)[:9],
        chosen_total=12,
    )
    if job_id == "j2":
        running, progress = of.running[0], of.progress["j2"]
        record = JobRecord("j2", of.name, "compaction", running.started_at, holder="host-1-77", operations=12)
        spark = SparkStatus(SparkState.UP, "local[*]", "http://host-1:4040")
        usual = replace(usual, record=record, running=running, progress=progress, card=None, attempts=(), spark=spark)
    return replace(usual, **changes)
