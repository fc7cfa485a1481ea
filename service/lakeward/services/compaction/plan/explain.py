"""A decision as one sentence for an operator: why this, or why not and when it would be.

Touches: nothing.
Keeps:   every reason has its sentence, and every sentence says what would have to change where the choice is NONE.
"""

from __future__ import annotations

from collections.abc import Mapping

from lakeward.base.quantities import format_count, format_duration, format_share, format_size, write_duration
from lakeward.services.compaction.plan.decision import (
    AGAINST_LOG,
    FOUND_IN_LOGS,
    ROWS_IN_PART,
    TAKEN_WHOLE,
    TWO_PLANS,
    VERSION_WITHOUT_LOG,
    Choice,
    Decision,
    Reason,
)
from lakeward.services.compaction.plan.pay_back import LIVE_LOGS_MAX, OPENED_LOGS_MAX, PAYS_IN
from lakeward.services.compaction.plan.read_rates import LEARNED_DAYS, RateSource
from lakeward.services.compaction.plan.shadow import shadow_sentence
from lakeward.table.table_config import PARTIAL_UPDATE_MODE
from lakeward.table.table_version import LOG_COMPACTION_VERSION


def explain(decision: Decision) -> str:
    """One sentence about a file group."""
    return f"{_choice(decision)}: {_because(decision)}{shadow_sentence(decision.numbers)}."


def _choice(decision: Decision) -> str:
    match decision.choice:
        case Choice.FULL:
            return "FULL, base and logs into a new base"
        case Choice.LOG:
            return "LOG, logs into one log"
        case Choice.NONE:
            return "NONE" if decision.instead_of is None else f"NONE, although {decision.instead_of} is due"


def _because(decision: Decision) -> str:
    numbers = decision.numbers
    instant = decision.instant or "an unknown instant"
    match decision.reason:
        case Reason.OBJECTIVE:
            return (
                f"the oldest record of {_logs(numbers)} is in logs only for "
                f"{format_duration(numbers['oldest_log_seconds'])}, and the objective allows "
                f"{write_duration(numbers['objective_seconds'])}{_at_what_price(numbers)}"
            )
        case Reason.HAS_LOGS:
            are = "is" if numbers["log_files"] == 1 else "are"
            if decision.choice is Choice.LOG and "ahead_log_files" in numbers:
                ahead = f", of which the {numbers['run_logs']} behind larger ones are merged"
            else:
                ahead = ""
            return f"it was asked for, and there {are} {_logs(numbers)}{ahead}"
        case Reason.NO_BASE:
            return f"there is no base file yet; the first is made of {_logs(numbers)}"
        case Reason.SMALL_BASE:
            return (
                f"the base of {format_size(numbers['base_bytes'])} is below {format_size(numbers['small_base_size'])}, "
                f"so rewriting it with {_logs(numbers)} is cheap"
            )
        case Reason.LOG_RATIO:
            return (
                f"the logs, {_logs(numbers)}, are more than {format_share(numbers['log_ratio'])} of the base of "
                f"{format_size(numbers['base_bytes'])}, so rewriting it pays"
            )
        case Reason.TOO_MANY_LOGS:
            if AGAINST_LOG.isdisjoint(numbers) and decision.instant is None:
                held = "a delete in them always wins, so a LOG would have to write the largest of them again"
            elif AGAINST_LOG.isdisjoint(numbers):
                held = f"write {instant}, which is still pending, has kept LOG from merging them"
            else:
                held = _why_no_log(numbers)
            return (
                f"there are {_logs(numbers)}, more than {numbers['logs_max']}, so they are rewritten with the base of "
                f"{format_size(numbers['base_bytes'])}: {held}"
            )
        case Reason.MANY_MERGED_LOGS:
            merged = format_count(int(numbers["superseded_log_files"]), "log")
            return (
                f"readers still open {merged} that log compactions have merged and no clean has taken away, more than "
                f"{numbers['merged_logs_max']}, which costs them more than reading the base of "
                f"{format_size(numbers['base_bytes'])}; so that is rewritten with {_logs(numbers)}, and a new slice "
                "begins without them"
            )
        case Reason.MANY_SMALL_LOGS:
            ahead = " behind larger ones" if "ahead_log_files" in numbers else ""
            before = f" before pending write {instant}" if decision.instant is not None else ""
            run = f"the {numbers['run_logs']}{ahead}{before}" if ahead or before else "all"
            return (
                f"there are {_logs(numbers)}, the median {format_size(numbers['median_log_bytes'])}, no more than "
                f"{format_share(numbers['log_ratio'])} of the base of {format_size(numbers['base_bytes'])}, so {run} "
                "are merged and the base is left"
            )
        case Reason.PAYS_BACK:
            return (
                f"for {_logs(numbers)}, {_price(numbers)}, sooner than in the {_ahead(numbers)} that are looked ahead"
            )
        case Reason.OVER_CAP:
            merged = format_count(int(numbers["superseded_log_files"]), "merged log")
            return (
                f"readers meet {_logs(numbers)}, and {merged}: more than the {LIVE_LOGS_MAX} that are merged, or the "
                f"{OPENED_LOGS_MAX} that are opened in all, which no price overrides; {_price(numbers)}"
            )
        case Reason.DOES_NOT_PAY:
            return (
                f"for {_logs(numbers)}, {_price(numbers)}, and only {_ahead(numbers)} are looked "
                f"ahead, half of how long they have lain{_when_it_pays(numbers)}{_at_the_latest(numbers)}"
            )
        case Reason.NOT_SELECTED:
            return "the partition and file group filters leave it out; it would be considered without them"
        case Reason.STRATEGY:
            return (
                f"the compaction strategy leaves it out with {_logs(numbers)}; another strategy, or its thresholds and "
                "partitions, would let it in"
            )
        case Reason.PENDING_COMPACTION:
            return f"compaction {instant} holds it; it is considered again when that is done or rolled back"
        case Reason.PENDING_LOG_COMPACTION:
            return f"log compaction {instant} holds it; it is considered again when that is done or rolled back"
        case Reason.PENDING_CLUSTERING:
            return f"clustering {instant} is about to replace it; it is considered again if that is rolled back"
        case Reason.FROZEN:
            return (
                f"its files cannot be told apart without guessing, or are damaged, because of {instant}; "
                "`lakeward inspect` says why"
            )
        case Reason.NAMELESS:
            return "the name of its partition is no UTF-8, so neither a plan nor any program of Hudi's can name it"
        case Reason.NO_LOGS:
            return "there are no logs to merge; the next write that updates it leaves one"
        case Reason.ONE_LOG:
            if TAKEN_WHOLE in numbers and numbers["log_files"] > 1:
                return (
                    f"there are {_logs(numbers)}, a delete in them always wins, so a LOG takes all of them, and it "
                    f"waits for more than {numbers[TAKEN_WHOLE]}"
                )
            behind = ", one of them behind larger ones" if "ahead_log_files" in numbers else ""
            are = "is" if numbers["log_files"] == 1 else "are"
            return f"there {are} {_logs(numbers)}{behind}, and a LOG merges at least two"
        case Reason.TABLE_TRIGGER:
            return f"the table is not due, it has {_trigger(numbers)} since its last plan{_at_the_latest(numbers)}"
        case Reason.GROUP_TRIGGER:
            return (
                f"the file group is not due, it has {_trigger(numbers)} since its own last compaction"
                f"{_at_the_latest(numbers)}"
            )
        case Reason.BELOW_THRESHOLDS:
            return _below_thresholds(numbers)
        case Reason.UNSUPPORTED_LOGS:
            return "a log holds what this release cannot merge; leave the group to Hudi"
        case Reason.DAMAGED:
            return "a log of it is damaged, so rows would be lost; restore the file that the error names"
        case Reason.LOG_NOT_ALLOWED:
            return f"{_why_no_log(numbers)}{_at_most(numbers)}"
        case Reason.PENDING_WRITE:
            return (
                f"write {instant} is still pending and may put rows between the logs, which leaves "
                f"{numbers['run_logs']} of {numbers['log_files']} logs before it where {numbers['run_logs_min']} are "
                f"needed; it would be done once that write completes or is rolled back{_at_most(numbers)}"
            )
        case Reason.WRITE_AT_WORK:
            return (
                "a write may be at work in its partition, and one by the rules of Hudi 1.0 would fail for a compaction "
                "that is planned meanwhile; it is planned when no write is (locks.writers_conflict)"
            )
        case Reason.OVER_BUDGET:
            return (
                "other file groups come first, and the "
                f"{format_size(numbers['read_bytes'] + numbers['write_bytes'])} it reads "
                f"and writes did not fit into what they left of {format_size(numbers['budget_bytes'])}; the next plan "
                "may hold it"
            )
        case Reason.PARKED:
            return (
                "its last operations failed, so it is parked and the other file groups go on; it is tried again when "
                "its time is over, or sooner if it is resumed"
            )
        case Reason.PAUSED:
            return "an operator paused it; it is considered again when it is resumed or the pause ends"


def _price(numbers: Mapping[str, int | float]) -> str:
    """What the merge takes and saves, and when it pays back."""
    logs = numbers.get("priced_logs")
    what = f"a new base of {format_size(numbers['write_bytes'])}" if logs is None else f"merging {logs} of them"
    back = (
        f"pays back in {format_duration(numbers['pays_back_seconds'])}"
        if "pays_back_seconds" in numbers
        else "never pays back"
    )
    return (
        f"{what} takes {numbers['core_seconds']:.3g} core-seconds and saves each of {numbers['reads_per_day']:g} reads "
        f"a day{_source(numbers)} {numbers['read_saved_seconds']:.3g}, which {back}"
    )


def _at_what_price(numbers: Mapping[str, int | float]) -> str:
    """What keeping the objective takes, where prices are asked."""
    return f"; {_price(numbers)}" if "read_saved_seconds" in numbers else ""


def _source(numbers: Mapping[str, int | float]) -> str:
    """The origin of the rate of reads; releases that did not keep it wrote decisions down, too."""
    if RateSource.SAID.value in numbers:
        return " (as planner.reads says)"
    if RateSource.OF_PROPERTY.value in numbers:
        return " (as the table's property says)"
    if (reads := numbers.get(RateSource.LEARNED.value)) is not None:
        days = format_count(int(numbers[LEARNED_DAYS]), "day")
        return f" (learned from {format_count(int(reads), 'read')} of the table in the last {days})"
    return " (assumed)" if RateSource.ASSUMED.value in numbers else ""


def _when_it_pays(numbers: Mapping[str, int | float]) -> str:
    """When the first merge will pay, where one does at some time."""
    if (seconds := numbers.get(PAYS_IN)) is None:
        return ""
    return f"; if nothing is written, one is made in {format_duration(seconds)}"


def _ahead(numbers: Mapping[str, int | float]) -> str:
    return format_duration(numbers["ahead_seconds"])


def _why_no_log(numbers: Mapping[str, int | float]) -> str:
    """The first reason why no log compaction is made of the table."""
    if (version := numbers.get(VERSION_WITHOUT_LOG)) is not None:
        return (
            f"released readers of tables of version {version} read the logs of a log compaction and its output both, "
            f"so none is made before version {LOG_COMPACTION_VERSION}"
        )
    if ROWS_IN_PART in numbers:
        return (
            f"rows are updated in part ({PARTIAL_UPDATE_MODE}), so the merged row of a key depends on all of its "
            "rows, and no log compaction is made of this table"
        )
    if FOUND_IN_LOGS in numbers:
        return (
            "a delete in its logs has no ordering value, or may have none, or a log is from before the table got the "
            "layout lsm_tree, so that one log in their place could read otherwise"
        )
    if TWO_PLANS in numbers:
        return (
            "in the layout lsm_tree a log compaction is only made in one plan with full compactions, and "
            "planner.publish is split"
        )
    return (
        "readers of the layout lsm_tree read the logs of a log compaction and its output both until a clean takes the "
        "logs away, and no clean of Lakeward's does so here, so it would save them nothing"
    )


def _below_thresholds(numbers: Mapping[str, int | float]) -> str:
    """What is missing of a LOG's conditions, which are asked of the logs behind larger ones, and of a FULL's."""
    ahead = numbers.get("ahead_log_files", 0)
    run_logs = numbers["log_files"] - ahead
    behind = f"{run_logs} of them behind larger ones, " if ahead and run_logs else ""
    full = []
    if numbers["log_files"] < numbers["full_num_threshold"]:
        full.append(f"{numbers['full_num_threshold']} logs or more")
    if numbers["log_bytes"] < numbers["full_size_threshold"]:
        full.append(f"{format_size(numbers['full_size_threshold'])} of logs or more")
    ratio_bytes = numbers["log_ratio"] * numbers["base_bytes"]
    if numbers["base_bytes"] >= numbers["small_base_size"] and numbers["log_bytes"] <= ratio_bytes:
        full.append(f"logs of more than {format_size(ratio_bytes)}")
    missing = []
    if not run_logs and TAKEN_WHOLE in numbers and numbers["log_files"] <= numbers[TAKEN_WHOLE]:
        missing.append(f"more than {numbers[TAKEN_WHOLE]} logs, since a delete in them always wins and it takes all")
    elif not run_logs:
        large_bytes = numbers["large_log_ratio"] * (numbers["base_bytes"] or numbers["log_bytes"])
        missing.append(f"no log of more than {format_size(large_bytes)}")
    elif run_logs < numbers["log_num_threshold"]:
        missing.append(f"{numbers['log_num_threshold']} logs or more")
    if numbers["log_bytes"] - numbers.get("ahead_log_bytes", 0) < numbers["log_size_threshold"] and run_logs:
        missing.append(f"{format_size(numbers['log_size_threshold'])} of logs or more")
    if numbers["median_log_bytes"] >= numbers["small_log_size"]:
        missing.append(f"a median log below {format_size(numbers['small_log_size'])}")
    needed = f"FULL would need {' and '.join(full)}"
    if AGAINST_LOG.isdisjoint(numbers):
        needed = f"LOG would need {' and '.join(missing)}, FULL {' and '.join(full)}"
    return (
        f"on a base of {format_size(numbers['base_bytes'])} there is too little to merge, {_logs(numbers)}, "
        f"{behind}the median {format_size(numbers['median_log_bytes'])}; {needed}{_at_the_latest(numbers)}"
    )


def _at_most(numbers: Mapping[str, int | float]) -> str:
    """What ends the wait for a LOG, where FULL may."""
    return (
        f"; with more than {format_count(int(numbers['logs_max']), 'log')} FULL merges them"
        if "logs_max" in numbers
        else ""
    )


def _at_the_latest(numbers: Mapping[str, int | float]) -> str:
    """When the objective has it merged, where there is one."""
    if "objective_due_seconds" not in numbers:
        return ""
    left = numbers["objective_due_seconds"] - numbers["oldest_log_seconds"]
    return f"; the objective of {write_duration(numbers['objective_seconds'])} has it merged in {format_duration(left)}"


def _trigger(numbers: Mapping[str, int | float]) -> str:
    conditions = []
    if "trigger_commits" in numbers:
        conditions.append(f"{numbers['trigger_commits']} of {numbers['trigger_commits_min']} delta commits")
    if "trigger_seconds" in numbers:
        conditions.append(f"{numbers['trigger_seconds']} of {numbers['trigger_seconds_min']} seconds")
    return (" and " if numbers["trigger_conditions"] > 1 else " or ").join(conditions)


def _logs(numbers: Mapping[str, int | float]) -> str:
    files = numbers["log_files"]
    return f"{format_count(int(files), 'log')} of {format_size(numbers['log_bytes'])}"
