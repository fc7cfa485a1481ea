from __future__ import annotations

import re
import subprocess
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics

from lakeward.config.settings import MetricsSettings
from lakeward.daemon.metrics.metrics import Metrics
from lakeward.daemon.metrics.specs import METRICS, PollOutcome, WatchedStep
from lakeward.daemon.metrics.table_labels import OTHER, TableLabels
from lakeward.daemon.scheduling.table_state import Hold, TableState
from lakeward.daemon.status import JobEnd, ServiceStatus, SparkState, SparkStatus, StorageSample, TableStatus
from lakeward.protocol.job_report import JobCost, JobFigures, ReadLoad
from lakeward.protocol.progress import Count, Phase
from lakeward.services.compaction.plan.decision import Choice, PlanOutcome, Reason
from lakeward.services.metric import MetricKind
from lakeward.services.services import load_services
from lakeward.state.records import ComparedDay, ExaminationRecord
from lakeward.table.backlog import BegunService, PendingPlan
from tests.daemon.scrape import compare, samples, value
from tests.daemon.synthetic_status import (
    FIGURES,
    NOW,
    backlog,
    decision,
    examination,
    job,
    service,
    table,
    varied_tables,
)
from tests.deploy.tools import find_tool

OUTCOME = PlanOutcome(
    decisions=(decision(), decision(), decision(Choice.NONE, Reason.NO_LOGS)),
    operations=(),
)


def scrape(metrics: Metrics) -> str:
    return generate_latest(metrics.registry).decode()


def busy(status: ServiceStatus | None = None) -> Metrics:
    """One of which every method was called."""
    metrics = Metrics(CollectorRegistry())
    metrics.show(lambda: status or service(*varied_tables()))
    for result in PollOutcome:
        metrics.polled("orders", result, 0.01)
    metrics.planned("orders", OUTCOME, 0.2)
    for end in JobEnd:
        metrics.job_ended(job(result=end.value), FIGURES)
    for phase in Phase:
        metrics.phase("orders", phase, 1.5)
    for count in Count:
        metrics.counted("orders", count)
    metrics.writers_failed("orders", 2)
    for each in load_services():
        metrics.job_ended(job(service=each.kind.value), FIGURES)
    metrics.job_predicted("orders", JobCost({}, ReadLoad(), ReadLoad(), 0.0, 2.0, task_seconds=9.0, cpu_seconds=3.0))
    metrics.compared(ComparedDay("orders", 20_818, 1.0, job_seconds=2.0, real_bytes=5, modelled_bytes=6))
    for step in WatchedStep:
        metrics.watchdog_fired("orders", step)
    metrics.lease_gained()
    metrics.lease_lost()
    metrics.store_operation("begin_job", 0.003)
    metrics.store_operation("begin_job", 3.0, failed=True)
    metrics.spark_restarted()
    metrics.config_reloaded(applied=True)
    metrics.config_reloaded(applied=False)
    return metrics


def test_what_is_documented_is_emitted_and_nothing_else():
    """Page and scrape agree both ways in name, type, help and labels."""
    comparison = compare(scrape(busy()))

    assert comparison.undocumented == frozenset()
    assert comparison.missing == frozenset()
    assert comparison.silent == frozenset()
    assert comparison.wrong == ()


def test_names_follow_the_rules_of_prometheus():
    """The prefix is Lakeward's, counters end with _total, units are base units and stand last, no name is there
    twice."""
    names = [spec.name for spec in METRICS]

    assert len(set(names)) == len(names)
    for spec in METRICS:
        assert re.fullmatch(r"lakeward_[a-z0-9]+(_[a-z0-9]+)*", spec.name)
        assert spec.name.endswith("_total") == (spec.kind is MetricKind.COUNTER)
        assert not re.search(r"milli|micro|_ms\b|kilo|mega|minutes|percent", spec.name)
        assert spec.help.endswith(".")
        assert list(spec.buckets) == sorted(set(spec.buckets))


@pytest.mark.promtool
def test_promtool_finds_nothing_to_say():
    """Prometheus' own linter reads what we emit."""
    promtool = find_tool("promtool", install="package prometheus")
    done = subprocess.run(
        [promtool, "check", "metrics"], input=scrape(busy()), text=True, capture_output=True, check=False, timeout=60
    )
    said = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("lakeward")]

    assert (done.returncode, said) == (0, [])


def test_openmetrics_is_well_formed():
    """The strict parser of the newer format accepts it."""
    text = generate_openmetrics(busy().registry).decode()

    families = {family.name for family in parse_openmetrics(text)}

    assert "lakeward_jobs" in families
    assert text.endswith("# EOF\n")


def test_no_created_series_double_the_scrape():
    """The library's own idea of when a counter began is left out."""
    assert "_created" not in scrape(busy())


def test_gauges_say_what_the_status_says():
    """Each from the field of its name, and ages from the status' own time."""
    pending = PendingPlan("20270115070000000", "compaction", NOW - 700)
    kept = {"oldest_savepoint_at": NOW - 90_000, "pinned_bytes": 13}
    begun = tuple(BegunService(f"2027011506{each:02}00000", "clustering", NOW - 60 * each) for each in (9, 5))
    waiting = backlog(pending_plans=(pending,), oldest_unmerged_at=NOW - 4000, begun_services=begun, **kept)
    counted = StorageSample(NOW - 60, {"live": 100, "dead": 7, "orphan": 0})
    shown = table("orders", TableState.QUEUED, backlog=waiting, storage=counted)
    text = scrape(busy(service(shown)))

    assert value(text, "lakeward_table_log_files", table="orders") == 120
    assert value(text, "lakeward_table_oldest_unmerged_age_seconds", table="orders") == 4000
    assert value(text, "lakeward_table_objective_breached", table="orders") == 1
    assert value(text, "lakeward_table_pending_plans", table="orders", action="compaction") == 1
    assert value(text, "lakeward_table_pending_plans", table="orders", action="logcompaction") == 0
    assert value(text, "lakeward_table_oldest_pending_plan_age_seconds", table="orders") == 700
    assert value(text, "lakeward_table_begun_services", table="orders", action="clustering") == 2
    assert value(text, "lakeward_table_oldest_begun_service_age_seconds", table="orders", action="clustering") == 540
    assert value(text, "lakeward_table_oldest_begun_service_age_seconds", table="orders", action="clean") == 0
    assert value(text, "lakeward_table_write_amplification_ratio", table="orders") == 2.31
    assert value(text, "lakeward_table_oldest_savepoint_age_seconds", table="orders") == 90_000
    assert value(text, "lakeward_table_pinned_bytes", table="orders") == 13
    assert value(text, "lakeward_table_storage_bytes", table="orders", state="live") == 100
    assert value(text, "lakeward_table_storage_bytes", table="orders", state="orphan") == 0
    assert value(text, "lakeward_table_consumer_behind_seconds", table="orders", consumer="daily") == 7200
    assert value(text, "lakeward_table_consumer_behind_seconds", table="orders", consumer="lost") == float("inf")
    assert value(text, "lakeward_tables", state="queued") == 1


def test_findings_of_a_table_that_was_not_seen_are_not_none():
    """A 0 would say that all is well; how long it was not seen counts since it is watched. What the store has not said
    has no age either."""
    never = table("never", examination=ExaminationRecord(NOW - 86_400))
    failed = table("failed", examination=ExaminationRecord(NOW - 60, problem="The disk is gone."))
    elsewhere = table("elsewhere", examination=None)
    sick = examination("danger", "warning", "warning")
    unseen = [*(sick.document or {})["unseen"], {"code": "orphan-files", "why": "It broke.", "by_choice": False}]
    sick = replace(sick, document={**(sick.document or {}), "unseen": unseen})
    text = scrape(busy(service(never, failed, elsewhere, table("sick", examination=sick))))

    counts = {
        grade: value(text, "lakeward_table_findings", table="sick", grade=grade)
        for grade in ("danger", "warning", "advice", "unseen")
    }
    assert counts == {"danger": 1, "warning": 2, "advice": 0, "unseen": 1}
    assert value(text, "lakeward_table_examination_age_seconds", table="sick") == 7200
    for name in ("never", "failed"):
        assert f'lakeward_table_findings{{grade="danger",table="{name}"' not in text
        assert value(text, "lakeward_table_examination_age_seconds", table=name) == 86_400
    assert 'lakeward_table_examination_age_seconds{table="elsewhere"' not in text


def test_without_an_objective_there_are_no_gauges_of_it():
    """`objective = "none"` switches off what the alert rests on; the record's age is still reported."""
    shown = table("orders", backlog=backlog(oldest_unmerged_at=NOW - 4000), objective=None)
    text = scrape(busy(service(shown)))

    assert "lakeward_table_objective" not in "".join(line for line in text.splitlines() if 'table="orders"' in line)
    assert value(text, "lakeward_table_oldest_unmerged_age_seconds", table="orders") == 4000


def test_a_table_in_shadow_has_no_gauges_of_an_objective():
    """The alert rests on the definition that the page has."""
    shadow = table("orders", TableState.SHADOW, backlog=backlog(oldest_unmerged_at=NOW - 4000))
    text = scrape(busy(service(shadow)))

    assert not shadow.is_breached(NOW)
    assert "lakeward_table_objective" not in "".join(line for line in text.splitlines() if 'table="orders"' in line)
    assert value(text, "lakeward_table_oldest_unmerged_age_seconds", table="orders") == 4000


def test_the_age_of_a_refused_table_is_shown_only_where_it_is_known():
    """0 would say that everything is merged, which is not known of it."""
    unknown = table("unknown", TableState.REFUSED, backlog=backlog(oldest_unmerged_at=None))
    known = table("known", TableState.REFUSED, backlog=backlog(oldest_unmerged_at=NOW - 60))
    merged = table("merged", backlog=backlog(oldest_unmerged_at=None, log_files=0, superseded_log_files=0))
    ages = samples(scrape(busy(service(unknown, known, merged))))["lakeward_table_oldest_unmerged_age_seconds"]

    assert {labels["table"]: number for labels, number in ages} == {"known": 60, "merged": 0}


@pytest.mark.parametrize("state", TableState)
def test_exactly_one_state_is_1(state: TableState):
    """It is a state-set: the others are there, and 0."""
    text = scrape(busy(service(table("orders", state))))

    states = {labels["state"]: number for labels, number in samples(text)["lakeward_table_state"]}
    assert states == {each.value: float(each is state) for each in TableState}


def test_every_hold_of_a_table_is_1():
    """An alert on one of them does not end because of another one."""
    holds = (Hold(TableState.BACKING_OFF, "No disk.", NOW), Hold(TableState.SHADOW, "Nothing is said."))
    text = scrape(busy(service(table("orders", TableState.BACKING_OFF, outlook={"holds": holds}))))

    states = {labels["state"] for labels, number in samples(text)["lakeward_table_state"] if number}
    assert states == {"backing-off", "shadow"}


@pytest.mark.parametrize("state", SparkState)
def test_exactly_one_state_of_spark_is_1(state: SparkState):
    """That no job has asked for it yet is not that it is down."""
    text = scrape(busy(service(spark=SparkStatus(state))))

    assert value(text, "lakeward_spark_session", state=state.value) == 1
    assert sum(number for _, number in samples(text)["lakeward_spark_session"]) == 1


def test_a_table_that_was_never_scanned_at_has_a_time_all_the_same():
    """The alert for tables that are not polled would otherwise miss the worst of them."""
    never = table("orders", backlog=None, outlook={"scanned_at": None, "scan_overdue": True})
    text = scrape(busy(service(never)))

    assert value(text, "lakeward_table_last_looked_timestamp_seconds", table="orders") == never.served.watched_since
    assert value(text, "lakeward_table_look_overdue", table="orders") == 1
    assert "lakeward_table_log_files" not in samples(text)


def test_tables_beyond_the_cap_share_a_label_and_sums_stay_right():
    """Sizes add up, ages take the worst, a scan the oldest."""
    tables = [
        table(
            f"t{number}", outlook={"scanned_at": NOW - number}, backlog=backlog(oldest_unmerged_at=NOW - 100 * number)
        )
        for number in range(5)
    ]
    metrics = Metrics(CollectorRegistry(), TableLabels(tables_max=2))
    metrics.show(lambda: service(*tables))
    metrics.polled("t4", PollOutcome.CHANGED, 0.1)
    metrics.keep({})  # what a poll saw is forgotten, so that the order below is that of the status
    text = scrape(metrics)

    assert {labels["table"] for labels, _ in samples(text)["lakeward_table_log_files"]} == {"t0", "t1", OTHER}
    assert sum(number for _, number in samples(text)["lakeward_table_log_files"]) == 5 * 120
    assert value(text, "lakeward_table_oldest_unmerged_age_seconds", table=OTHER) == 400
    assert value(text, "lakeward_table_last_looked_timestamp_seconds", table=OTHER) == NOW - 4
    assert value(text, "lakeward_table_state", table=OTHER, state="idle") == 3


def test_counters_of_tables_beyond_the_cap_are_counted_under_other():
    """Nothing is lost, and no label is made."""
    metrics = Metrics(CollectorRegistry(), TableLabels(tables_max=1))
    metrics.show(lambda: service(table("a"), table("b"), table("c")))
    scrape(metrics)
    for name in ("a", "b", "c"):
        metrics.counted(name, Count.CONFLICT)
    text = scrape(metrics)

    assert value(text, "lakeward_conflicts_total", table="a") == 1
    assert value(text, "lakeward_conflicts_total", table=OTHER) == 2


def few_of(*tables: TableStatus) -> Metrics:
    """The metrics of these tables, of which none was chosen to have all series."""
    metrics = Metrics(CollectorRegistry())
    metrics.choose(lambda *names: False)
    metrics.show(lambda: service(*tables))
    metrics.keep({each.name: each.name for each in tables})
    return metrics


def test_a_healthy_table_has_fifteen_series_at_most_unless_it_was_chosen():
    """Prometheus can keep so many of 3,000 tables, and what happens is counted all the same (Keeps 1 and 2 of
    daemon/metrics/metrics)."""
    metrics = few_of(*(table(f"t{number}", remembered={}) for number in range(5)))
    for end in JobEnd:
        metrics.job_ended(job("t0", result=end.value), FIGURES)
    metrics.planned("t1", OUTCOME, 0.1)
    text = scrape(metrics)

    found = samples(text)
    of_tables = [labels["table"] for each in found.values() for labels, _ in each if "table" in labels]
    assert 5 < of_tables.count("t2") <= 15
    assert value(text, "lakeward_table_log_bytes", table="t2") == 310 * 2**20
    assert value(text, "lakeward_table_state", table="t2", state="idle") == 1
    assert value(text, "lakeward_decisions_total", table=OTHER, choice="FULL", reason=decision().reason.value) == 2


def test_what_an_alert_watches_is_shown_under_the_name_of_each_table():
    """So an alert names the table; what is well is counted under `other`."""
    sick = table("sick", outlook={"failures": 3}, examination=examination("danger"))
    metrics = few_of(sick, table("well"))
    metrics.job_ended(job("sick", result=JobEnd.REFUSED.value), JobFigures())
    metrics.job_ended(job("sick"), JobFigures(operations_verified=2))
    metrics.job_ended(job("sick", result=JobEnd.VERIFICATION.value), JobFigures())
    metrics.counted("sick", Count.CONFLICT)
    text = scrape(metrics)

    assert value(text, "lakeward_table_failures", table="sick") == 3
    assert value(text, "lakeward_table_findings", table="sick", grade="danger") == 1
    assert {labels["table"] for labels, _ in samples(text)["lakeward_table_failures"]} == {"sick"}
    assert value(text, "lakeward_jobs_total", table="sick", service="compaction", end="refused") == 1
    assert value(text, "lakeward_jobs_total", table=OTHER, service="compaction", end="committed") == 1
    assert value(text, "lakeward_verifications_total", table="sick", check="operation", result="mismatch") == 1
    assert value(text, "lakeward_verifications_total", table=OTHER, check="operation", result="passed") == 2
    assert value(text, "lakeward_conflicts_total", table="sick") == 1


def test_tables_are_chosen_by_globs_and_again_at_a_reload():
    """The number of those with all series is capped, too (Keeps 1 and 2 of daemon/metrics/table_labels)."""
    metrics = Metrics(CollectorRegistry(), TableLabels(whole_max=2))
    names = ("lake/orders", "lake/trips", "sales/a", "sales/b", "sales/c")
    metrics.show(lambda: service(*map(table, names)))
    metrics.keep({name: name for name in names})

    def in_full() -> set[str]:
        return {labels["table"] for labels, _ in samples(scrape(metrics)).get("lakeward_table_file_slices", ())}

    metrics.choose(MetricsSettings(tables=("lake/*",)).is_whole)
    assert in_full() == {"lake/orders", "lake/trips"}
    assert value(scrape(metrics), "lakeward_watchdog_firings_total", table="lake/trips", step="poll") == 0
    metrics.choose(MetricsSettings(tables=("sales/*",)).is_whole)
    assert in_full() == {"sales/a", "sales/b"}
    assert 'lakeward_watchdog_firings_total{table="lake' not in scrape(metrics)
    metrics.keep({name: name for name in names if name != "sales/a"})
    metrics.show(lambda: service(*(table(name) for name in names if name != "sales/a")))
    assert in_full() == {"sales/b", "sales/c"}
    metrics.choose(MetricsSettings().is_whole)
    assert in_full() == set()
    metrics.choose(MetricsSettings(tables="all").is_whole)
    assert len(in_full()) == 2


def test_series_of_a_table_that_is_gone_go_away():
    """Its place under the cap is free for another."""
    shown = [service(table("old"))]
    metrics = Metrics(CollectorRegistry(), TableLabels(tables_max=1))
    metrics.show(lambda: shown[0])
    metrics.planned("old", OUTCOME, 0.1)
    assert 'table="old"' in scrape(metrics)

    shown[0] = service(table("new"))
    metrics.keep({"new": "new"})
    text = scrape(metrics)

    assert 'table="old"' not in text
    assert value(text, "lakeward_table_failures", table="new") == 0


def test_what_alerts_watch_is_there_at_0_from_the_first_scrape():
    """A counter that is born with 1 never rose, says Prometheus."""
    metrics = Metrics(CollectorRegistry())
    metrics.show(lambda: service(table("orders")))
    metrics.keep({"orders": "orders"})
    text = scrape(metrics)

    zero = value(text, "lakeward_verifications_total", table="orders", check="operation", result="mismatch")
    assert zero == 0
    assert value(text, "lakeward_jobs_total", table="orders", service="compaction", end="failed") == 0
    assert value(text, "lakeward_watchdog_firings_total", table="orders", step="poll") == 0
    assert value(text, "lakeward_conflicts_total", table="orders") == 0
    assert value(text, "lakeward_writer_conflicts_total", table="orders") == 0
    assert value(text, "lakeward_lock_held_beside_writes_seconds_total", table="orders") == 0
    assert value(text, "lakeward_config_reloads_total", result="refused") == 0


def test_a_table_whose_name_is_the_label_of_the_rest_is_no_trouble():
    """The table shares the series, and takes no other table's place."""
    metrics = Metrics(CollectorRegistry(), TableLabels(tables_max=2))
    metrics.show(lambda: service(table(OTHER), table("a"), table("b")))
    scrape(metrics)

    assert value(scrape(metrics), "lakeward_table_log_files", table=OTHER) == 240


def test_a_name_that_is_no_text_does_not_take_the_scrape_with_it():
    """File systems hold names that are only bytes."""
    metrics = Metrics(CollectorRegistry())
    metrics.show(lambda: service(table("half\udce4"), table('quote"\n\\')))
    metrics.counted("half\udce4", Count.CONFLICT)

    assert value(scrape(metrics), "lakeward_conflicts_total", table="half\\udce4") == 1

    metrics.show(lambda: service())
    metrics.keep({})
    assert "half" not in scrape(metrics)


def test_a_scrape_of_a_status_from_before_a_table_was_added_forgets_nothing_of_it():
    """What is shown is up to a second old; what is counted is not."""
    metrics = Metrics(CollectorRegistry())
    metrics.show(lambda: service())
    metrics.keep({"orders": "orders"})
    metrics.counted("orders", Count.CONFLICT)
    scrape(metrics)

    assert value(scrape(metrics), "lakeward_conflicts_total", table="orders") == 1


def test_labels_never_hold_an_instant_or_a_file_id():
    """Keeps of services/metric, whatever the status holds: only the values of `table` are not Lakeward's words."""
    text = scrape(busy())

    for name, found in samples(text).items():
        for labels, _ in found:
            for label, content in labels.items():
                if name.startswith("lakeward_") and label not in ("table", "le", "version", "python"):
                    assert re.fullmatch(r"[A-Za-z_-]+", content), (name, label, content)


def test_two_apps_in_one_process_do_not_see_each_other():
    """Each has a registry of its own."""
    one, other = busy(), Metrics(CollectorRegistry())

    assert value(scrape(one), "lakeward_spark_session_restarts_total") == 1
    assert value(scrape(other), "lakeward_spark_session_restarts_total") == 0


def test_a_job_is_counted_with_its_figures():
    """Counted are bytes, rows, operations by type, and the peak of the operation that needed most."""
    metrics = Metrics(CollectorRegistry())
    metrics.job_ended(job(), FIGURES)
    metrics.job_ended(job(service="verification"), JobFigures(groups_verified=4))
    text = scrape(metrics)

    assert value(text, "lakeward_operations_total", table="orders", type="LOG") == 9
    assert value(text, "lakeward_job_rows_total", table="orders", kind="deleted") == 12
    assert value(text, "lakeward_merges_total", table="orders", by="order") == 7
    assert value(text, "lakeward_copied_row_groups_total", table="orders") == 30
    assert value(text, "lakeward_job_merged_log_files_total", table="orders") == 62
    assert value(text, "lakeward_operation_peak_memory_bytes_count") == 1
    assert value(text, "lakeward_job_duration_seconds_sum", service="compaction", end="committed") == 30


def test_what_was_predicted_stands_beside_what_was_taken():
    """So their quotient is what the planner is off by: CPU seconds, where they are known."""
    metrics = Metrics(CollectorRegistry())
    metrics.keep({"orders": "orders"})
    load = ReadLoad()
    metrics.job_predicted("orders", JobCost({}, load, load, 0.0, 2.0, task_seconds=9.0, cpu_seconds=3.0))
    metrics.job_predicted("orders", JobCost({}, load, load, 0.0, 2.0, task_seconds=9.0, cpu_seconds=None))
    text = scrape(metrics)
    assert value(text, "lakeward_job_core_seconds_total", table="orders", kind="predicted") == 4
    assert value(text, "lakeward_job_core_seconds_total", table="orders", kind="taken") == 12


def test_days_beside_hudi_s_default_are_counted():
    """Jobs and readers together; a day of which nothing is known adds nothing."""
    metrics = Metrics(CollectorRegistry())
    metrics.keep({"orders": "orders"})
    day = ComparedDay("orders", 20_818, 1.0, job_seconds=2.0, hudi_job_seconds=9.0, real_bytes=5, modelled_bytes=6)
    metrics.compared(replace(day, reader_seconds=3.0, hudi_reader_seconds=0.5))
    metrics.compared(ComparedDay("orders", 20_819, 2.0, problem="It broke."))
    text = scrape(metrics)
    assert value(text, "lakeward_compared_core_seconds_total", table="orders", policy="happened") == 5
    assert value(text, "lakeward_compared_core_seconds_total", table="orders", policy="hudi") == 9.5
    assert value(text, "lakeward_compared_bytes_total", table="orders", kind="counted") == 5
    assert value(text, "lakeward_compared_bytes_total", table="orders", kind="modelled") == 6


def test_an_operation_whose_output_was_wrong_is_a_mismatch():
    """The first wrong one ends its job; those that were right are counted where they were published."""
    metrics = Metrics(CollectorRegistry())
    metrics.job_ended(job(), JobFigures(operations_verified=12))
    metrics.job_ended(job(result="verification"), JobFigures())
    metrics.job_ended(job(service="verification", result="verification"), JobFigures())
    text = scrape(metrics)

    assert value(text, "lakeward_verifications_total", table="orders", check="operation", result="passed") == 12
    assert value(text, "lakeward_verifications_total", table="orders", check="operation", result="mismatch") == 1


def test_what_a_service_verified_is_counted_by_its_check():
    """Groups of a sample, keys of indexes; a metric that several services feed has the kind of the job."""
    metrics = Metrics(CollectorRegistry())
    metrics.job_ended(job(service="verification"), JobFigures(groups_verified=4, groups_mismatched=1))
    metrics.job_ended(job(service="index"), JobFigures(index_keys_verified=9, index_keys_wrong=2))
    metrics.job_ended(job(service="rollback"), JobFigures(files_deleted=5, writes_rolled_back=1))
    text = scrape(metrics)

    for labels, number in (("sample passed", 3), ("sample mismatch", 1), ("index passed", 7), ("index mismatch", 2)):
        check, result = labels.split()
        found = value(text, "lakeward_verifications_total", table="orders", check=check, result=result)
        assert found == number, (check, result)
    assert value(text, "lakeward_deleted_files_total", table="orders", service="rollback") == 5
    assert value(text, "lakeward_rolled_back_writes_total", table="orders") == 1


def test_a_job_that_has_not_ended_is_not_counted():
    """It is a mistake of the caller, and stops."""
    with pytest.raises(AssertionError):
        Metrics(CollectorRegistry()).job_ended(replace(job(), ended_at=None), FIGURES)


def test_decisions_are_counted_by_choice_and_reason():
    """There is one for each group and plan."""
    metrics = Metrics(CollectorRegistry())
    metrics.planned("orders", OUTCOME, 0.1)
    metrics.planned("orders", OUTCOME, 0.1)

    counted = value(scrape(metrics), "lakeward_decisions_total", table="orders", choice="FULL", reason="log-ratio")
    assert counted == 4
    assert value(scrape(metrics), "lakeward_plans_total", table="orders") == 2


def test_waiting_for_the_lock_is_no_part_of_the_other_phases():
    """Lock phases have histograms of their own, the others share one by name."""
    metrics = Metrics(CollectorRegistry())
    for phase in Phase:
        metrics.phase("orders", phase, 2.0)
    text = scrape(metrics)

    phases = {labels["phase"] for labels, _ in samples(text)["lakeward_phase_duration_seconds_count"]}
    assert phases == {phase.value for phase in Phase} - {"lock_wait", "lock_hold", "beside_writes"}
    assert value(text, "lakeward_lock_wait_seconds_sum") == 2
    assert value(text, "lakeward_lock_hold_seconds_sum") == 2
