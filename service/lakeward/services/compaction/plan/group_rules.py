"""Choose for one file group: FULL, LOG or nothing, with the reason and the numbers that say why.

The first rule that matches decides. RFC-103 gives all but the first:

    0  a record in logs only nears the objective                        FULL   the operator was promised it
    1  no base file, or one below `small_base_size`                     FULL   rewriting is cheap
    2  logs larger than `log_ratio` of the base                         FULL   a rewrite pays
    3  enough logs, enough bytes of them, and the median one is small   LOG    the base need not be rewritten
    4  more merged logs than `MERGED_LOGS` times as many as a LOG       FULL   readers open each of them
       needs, which cost a reader more than the base does
    5  otherwise                                                        NONE

Where rule 3 asks for a LOG that the table does not allow, or that pending writes hold back, nothing happens until there
are more than `LOGS_WITHOUT_LOG` times as many logs as a LOG needs; then FULL, so that logs stay few everywhere. Rule 4
is asked before rule 3, and about logs that no clean took away (decision 0145).

Rule 3 is asked of the logs that a LOG would take, which are not all where earlier ones left outputs (`log_runs.py`).
A number or size of logs that an operator sets binds FULL and LOG alike, by all rules but the first.

Where an operator says how often groups are read, rules 1 to 4 give way to whether a merge pays (`pay_back.py`).

Before the rules stands what keeps a group from being considered: filters and pending work, and for all rules but the
first triggers, too. An operator may ask for FULL only, or for LOG only, wherever it is possible: then the other rules
say nothing, and with LOG only there is no objective. LOG only with a trigger comes again and again: it takes the run
that rule 3 would, whatever its size, and FULL comes by rule 4, and in place of a LOG that does not come. After the
rules stands what keeps a LOG from being right: a write that is still pending, see `log_runs.py`. Sizes and counts are
those of live logs (see `slice_profile.py`).

Touches: nothing.
Keeps:   1. a file group with a pending compaction, log compaction or clustering is never chosen;
         2. a log that completed after the plan's instant is in no operation;
         3. a LOG takes the logs of at least two neighbouring writes of its slice, in the hybrid form of all of them.
See:     docs/decisions/0006-hybrid-thresholds.md, docs/decisions/0024-the-objective-binds.md,
         docs/decisions/0170-whether-a-merge-pays.md
"""

from __future__ import annotations

import datetime
import math
import statistics
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from lakeward.format.timeline.compaction_plan import CompactionOperation
from lakeward.format.timeline.instant import comparable_time
from lakeward.services.compaction.plan.cost import OPEN_BYTES, Cost, full_cost, log_cost
from lakeward.services.compaction.plan.decision import (
    AGAINST_LOG,
    FOUND_IN_LOGS,
    ROWS_IN_PART,
    SOURCES_STAY,
    TAKEN_WHOLE,
    TWO_PLANS,
    VERSION_WITHOUT_LOG,
    Choice,
    Decision,
    Form,
    Reason,
    full_operation,
    log_operation,
)
from lakeward.services.compaction.plan.hybrid_options import (
    LOG_NUM_THRESHOLD,
    LOG_SIZE_THRESHOLD,
    LOGS_WITHOUT_LOG,
    MERGED_LOGS,
    HybridOptions,
)
from lakeward.services.compaction.plan.log_runs import (
    WRITES_MIN,
    PendingWrites,
    by_place,
    files_of_run,
    first_of_run,
    output_ranks_last,
    pending_writes,
    pick_prefix,
)
from lakeward.services.compaction.plan.objective import due_seconds
from lakeward.services.compaction.plan.pay_back import (
    LIVE_LOGS_MAX,
    OPENED_LOGS_MAX,
    PAYS_IN,
    Cut,
    full_cut,
    log_cuts,
    soonest_log_cut,
)
from lakeward.services.compaction.plan.read_rates import ReadRate
from lakeward.services.compaction.plan.slice_profile import SliceProfile, profile_slice
from lakeward.services.compaction.plan.trigger import Ages, Firing, Trigger, group_fires, table_fires
from lakeward.table.backlog import backlog_of_group
from lakeward.table.file_group import FileGroup, FileSlice, LogFile
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_config import TableConfig


@dataclass(frozen=True, slots=True)
class GroupChoice:
    """A file group with what the rules chose for it, before the budget is asked."""

    decision: Decision
    profile: SliceProfile
    cost: Cost | None = None
    """None for NONE."""
    run: tuple[LogFile, ...] = ()
    """The files that a LOG takes."""
    names_all: bool = False
    """The operation names all files of the slice, since another engine may carry it out as FULL."""
    benefit: float = 0.0
    """The greatest of several comes first: what readers save for what is written, or where an operator says how often
    they read, core-seconds gained for each that the job takes."""

    @property
    def io_bytes(self) -> int:
        return 0 if self.cost is None else self.cost.io_bytes

    def operation(self) -> CompactionOperation:
        assert self.cost is not None, "the choice is not NONE"
        if self.decision.choice is Choice.LOG:
            if self.names_all:
                return log_operation(self.profile.slice, self.profile.log_files, self.cost, run=self.run)
            return log_operation(self.profile.slice, self.run, self.cost)
        return full_operation(self.profile.slice, self.profile.log_files, self.cost)


class GroupRules:
    """The rules, with what is the same for all file groups of a plan: the table, its pending work, the instant."""

    def __init__(
        self,
        snapshot: TableSnapshot,
        options: HybridOptions,
        at: str,
        excluded: Mapping[GroupId, Reason],
        whole: Set[GroupId],
        without_log: Set[GroupId],
        profiles: Mapping[GroupId, SliceProfile],
    ) -> None:
        self._snapshot = snapshot
        self._options = options
        self._excluded = excluded
        self._whole = whole
        self._without_log = without_log
        self._profiles = profiles
        self._log_num_threshold = max(options.log_num_threshold or LOG_NUM_THRESHOLD, WRITES_MIN)
        self._log_size_threshold = options.log_size_threshold or LOG_SIZE_THRESHOLD
        self._logs_max = LOGS_WITHOUT_LOG * self._log_num_threshold
        self._merged_max = MERGED_LOGS * self._log_num_threshold
        self._is_log_alone_for_ever = options.only is Choice.LOG and options.is_asked_again
        version = snapshot.config.version
        by_version = Form.HYBRID if version.has_hybrid_plans else Form.SPLIT
        has_logs = snapshot.config.has_log_compaction and options.only is not Choice.FULL
        # Readers of changes take the rows of a LOG that is in a compaction for changes, and fail (decision 0051).
        may_be_hybrid = has_logs and not snapshot.config.cdc_enabled
        self.form = (options.form or by_version) if may_be_hybrid else Form.SPLIT
        self._against_log = _against_log(snapshot.config, self.form, options)
        self._objective = None if options.only is Choice.LOG else options.objective
        self._output_ranks_last = output_ranks_last(snapshot.config)
        self._is_lsm_tree = snapshot.config.is_lsm_tree
        self._reads = options.reads and options.reads.on(snapshot.config)
        self._today = datetime.date(int(at[:4]), int(at[4:6]), int(at[6:8]))
        # Eligibility refuses a table whose zone is unknown; its plan may still be shown, and then any zone will do.
        self._ages = Ages(at, snapshot.zone.zone or datetime.UTC)
        self._record_ages: dict[str, int] = {}
        self._rates: dict[str, tuple[ReadRate, Mapping[str, int | float]]] = {}
        self._pending_writes: PendingWrites = pending_writes(snapshot)
        self._late = frozenset(
            instant.time
            for instant in snapshot.timeline.completed_writes
            if instant.completion_time and comparable_time(instant.completion_time) >= comparable_time(at)
        )
        self._partitions = (
            options.selection.select_partitions(snapshot.partitions, at=at) if options.selection.strategies else None
        )
        self._table_firing: Firing | None = None
        self._trigger = options.trigger
        if self._trigger is not None:
            self._table_firing = table_fires(self._trigger, snapshot.timeline, self._ages)

    def decide(self, group: FileGroup, slice_: FileSlice) -> GroupChoice:
        """`slice_` is the group's latest."""
        options = self._options
        group_id = (slice_.partition_path, slice_.file_id)
        profile = None if self._late else self._profiles.get(group_id)
        if profile is None:
            profile = profile_slice(slice_, self._snapshot.log_compactions.get(group_id, ()), late=self._late)
        if slice_.base_file is not None and (rows := self._snapshot.base_rows.get(slice_.base_file.path)) is not None:
            profile = replace(profile, base_rows=rows)
        numbers = self._numbers(profile)
        reads = None if self._reads is None else self._rate(slice_.partition_path)
        if reads is not None:
            numbers |= self._rates[slice_.partition_path][1]
        if len(group.read_slices) > 1:  # under a pending compaction
            numbers |= backlog_of_group(group, self._snapshot.log_compactions.get(group_id, ())).numbers

        if not options.groups.selects(slice_.partition_path, slice_.file_id):
            return self._none(profile, numbers, Reason.NOT_SELECTED)
        for pending, reason in (
            (self._snapshot.pending_compactions, Reason.PENDING_COMPACTION),
            (self._snapshot.pending_log_compactions, Reason.PENDING_LOG_COMPACTION),
            (self._snapshot.pending_clusterings, Reason.PENDING_CLUSTERING),
        ):
            if group_id in pending:
                return self._none(profile, numbers, reason, instant=pending[group_id])
        if not profile.live:
            return self._none(profile, numbers, Reason.NO_LOGS)
        if self._partitions is not None and slice_.partition_path not in self._partitions:
            return self._none(profile, numbers, Reason.STRATEGY)
        if self._is_due_by_objective(numbers):
            priced = {} if reads is None else self._full_cut(profile, numbers).numbers(reads.per_second)
            return self._decide(profile, numbers | priced, Choice.FULL, Reason.OBJECTIVE)
        if not options.selection.selects(profile):
            return self._none(profile, numbers, Reason.STRATEGY)
        if self._table_firing is not None and self._trigger is not None and not self._table_firing.fires:
            return self._not_due(profile, numbers, Reason.TABLE_TRIGGER, self._trigger, self._table_firing)
        if options.group_trigger is not None:
            firing = group_fires(options.group_trigger, profile, self._ages)
            if not firing.fires:
                return self._not_due(profile, numbers, Reason.GROUP_TRIGGER, options.group_trigger, firing)

        if reads is not None and options.is_by_cost:
            choice, reason, cut, when = self._what_pays(profile, numbers, reads.per_second)
            numbers |= cut.numbers(reads.per_second)
            if choice is Choice.NONE:
                numbers |= cut.cost.numbers | when
            benefit = math.inf if reason is Reason.OVER_CAP else cut.gain(reads.per_second) / cut.cost.core_seconds
            return self._decide(profile, numbers, choice, reason, cut.run, benefit)
        run = self._wanted_run(profile)
        if len(run) < len(profile.live):
            numbers["ahead_log_files"] = len(profile.live) - len(run)
            numbers["ahead_log_bytes"] = profile.log_bytes - sum(log.size for log in run)
            numbers["median_log_bytes"] = statistics.median(log.size for log in run or profile.live)
        choice, reason = self._apply_rules(profile, run)
        return self._decide(profile, numbers, choice, reason, run)

    def _rate(self, partition_path: str) -> ReadRate:
        known = self._rates.get(partition_path)
        if known is None:
            assert self._reads is not None, "what pays is asked"
            rate = self._reads.of(partition_path, self._today)
            known = self._rates[partition_path] = (rate, rate.numbers)
        return known[0]

    def _wanted_run(self, profile: SliceProfile) -> tuple[LogFile, ...]:
        """The logs that a LOG would take, whatever is pending."""
        options = self._options
        if options.only is Choice.LOG and not options.is_asked_again:
            return profile.live  # who asks for it once wants one log
        bytes_max = options.large_log_ratio * (profile.base_bytes or profile.log_bytes)
        if profile.group_id in self._whole:
            # All are written again each time: so a few times more of them are waited for, unless the oldest are small.
            is_due = len(profile.live) > self._logs_max or not first_of_run(profile, bytes_max=bytes_max)
            return profile.live if is_due and profile.largest_log_bytes <= bytes_max else ()
        if options.only is Choice.LOG:
            bytes_max = math.inf  # no FULL ever takes the large ones
        return profile.live[first_of_run(profile, bytes_max=bytes_max) :]

    def _what_pays(
        self, profile: SliceProfile, numbers: Mapping[str, int | float], reads: float
    ) -> tuple[Choice, Reason, Cut, dict[str, int]]:
        """The merge that gains most; where none gains anything, the one that is nearest to it, for the explanation, and
        when the first one will.

        Args:
            numbers: what is known of the file group.
            reads: in a second.
        """
        full = self._full_cut(profile, numbers)
        of_logs: list[Cut] = []
        if AGAINST_LOG.isdisjoint(numbers) and self._may_log_win(profile, numbers, full, reads):
            of_logs += log_cuts(
                profile,
                age_of=lambda log: self._record_seconds(log.instant),
                is_whole=self.form is Form.HYBRID or profile.group_id in self._whole,
                sources_go=self._options.sources_retire,
                price=self._options.price.factor,
            )
        cuts = [cut for cut in (full, *of_logs) if self._options.only in (None, cut.choice)] or [full]
        gains = [cut.gain(reads) for cut in cuts]
        gain = max(gains)
        best = cuts[gains.index(gain)]
        if gain <= 0:  # the one that is nearest to paying
            shares = [gain / cut.cost.core_seconds for gain, cut in zip(gains, cuts, strict=True)]
            best = cuts[shares.index(max(shares))]
        opened = len(profile.live) + len(profile.logs.superseded)
        if self._options.only is None and opened > OPENED_LOGS_MAX:
            return Choice.FULL, Reason.OVER_CAP, full, {}
        if gain > 0:
            return best.choice, Reason.PAYS_BACK, best, {}
        if self._options.only is None and len(profile.live) > LIVE_LOGS_MAX:
            cheapest = min(cuts, key=lambda cut: cut.cost.core_seconds / max(1, len(cut.run) or len(profile.live)))
            return cheapest.choice, Reason.OVER_CAP, cheapest, {}
        soonest = min(cut.look_in(reads) for cut in cuts)
        when = {} if math.isinf(soonest) else {PAYS_IN: max(0, math.ceil(soonest))}
        return Choice.NONE, Reason.DOES_NOT_PAY, best, when

    def _may_log_win(self, profile: SliceProfile, numbers: Mapping[str, int | float], full: Cut, reads: float) -> bool:
        """Whether some LOG may be chosen, or be nearest to paying; False is certain, and cheaper than pricing each."""
        if self._options.only is Choice.LOG or len(profile.live) > LIVE_LOGS_MAX:
            return True
        log = soonest_log_cut(
            base_bytes=profile.base_bytes,
            log_bytes=profile.log_bytes,
            logs=len(profile.live),
            oldest_seconds=numbers["oldest_log_seconds"],
            sources_go=self._options.sources_retire,
            price=self._options.price.factor,
        )
        return log.may_beat(full, reads)

    def _full_cut(self, profile: SliceProfile, numbers: Mapping[str, int | float]) -> Cut:
        return full_cut(
            profile,
            age_seconds=numbers["base_seconds"],
            reads_merged=self._is_lsm_tree,
            price=self._options.price.factor,
        )

    def _is_due_by_objective(self, numbers: Mapping[str, int | float]) -> bool:
        return self._objective is not None and numbers["oldest_log_seconds"] >= numbers["objective_due_seconds"]

    def _decide(
        self,
        profile: SliceProfile,
        numbers: dict[str, int | float],
        choice: Choice,
        reason: Reason,
        run: tuple[LogFile, ...] = (),
        benefit: float | None = None,
    ) -> GroupChoice:
        """What happens to what the rules chose.

        Args:
            benefit: that of the choice, where it is not what readers save for what is written.
        """
        if choice is Choice.NONE:
            return self._none(profile, numbers, reason)
        if reason is Reason.MANY_SMALL_LOGS or self._is_log_alone_for_ever:
            numbers["logs_max"] = self._logs_max
        if reason is Reason.MANY_MERGED_LOGS:
            numbers["merged_logs_max"] = self._merged_max
        if (reason_against := self._excluded.get(profile.group_id)) is not None:
            return self._none(profile, numbers, reason_against, instead_of=choice)
        pending: str | None = None
        if choice is Choice.LOG:
            is_allowed = AGAINST_LOG.isdisjoint(numbers)
            if is_allowed:
                chosen = self._log(profile, run, reason, numbers, benefit)
            else:
                chosen = self._not_allowed(profile, numbers)
            if chosen.decision.choice is Choice.LOG or not self._are_too_many(profile, numbers):
                return chosen
            numbers, reason, pending = dict(chosen.decision.numbers), Reason.TOO_MANY_LOGS, chosen.decision.instant
        cost = full_cost(
            base_bytes=profile.base_bytes,
            log_bytes=profile.log_bytes,
            logs=len(profile.live),
            price=self._options.price.factor,
        )
        decision = _decision(profile, Choice.FULL, reason, numbers | cost.numbers, pending)
        return GroupChoice(decision, profile, cost, benefit=cost.benefit if benefit is None else benefit)

    def _not_allowed(self, profile: SliceProfile, numbers: dict[str, int | float]) -> GroupChoice:
        return self._none(profile, numbers, Reason.LOG_NOT_ALLOWED, instead_of=Choice.LOG)

    def _are_too_many(self, profile: SliceProfile, numbers: Mapping[str, int | float]) -> bool:
        """Whether the logs are rewritten with the base, since no LOG comes. Not where LOG alone was asked for once."""
        return "logs_max" in numbers and len(profile.live) > numbers["logs_max"]

    def _apply_rules(self, profile: SliceProfile, run: tuple[LogFile, ...]) -> tuple[Choice, Reason]:
        """The rule table at the head of this module."""
        options = self._options
        if len(profile.live) < options.log_num_threshold or profile.log_bytes < options.log_size_threshold:
            return Choice.NONE, Reason.BELOW_THRESHOLDS
        if options.only is Choice.FULL:
            return Choice.FULL, Reason.HAS_LOGS
        if options.only in (None, Choice.LOG) and self._has_too_many_merged(profile):
            return Choice.FULL, Reason.MANY_MERGED_LOGS
        if self._is_log_alone_for_ever and not run and len(profile.live) > self._logs_max:
            return Choice.FULL, Reason.TOO_MANY_LOGS
        if options.only is Choice.LOG:
            is_run = self._writes(profile, run) >= WRITES_MIN
            return (Choice.LOG, Reason.HAS_LOGS) if is_run else (Choice.NONE, Reason.ONE_LOG)
        if profile.slice.base_file is None:
            return Choice.FULL, Reason.NO_BASE
        if profile.base_bytes < options.small_base_size:
            return Choice.FULL, Reason.SMALL_BASE
        if profile.log_bytes > options.log_ratio * profile.base_bytes:
            return Choice.FULL, Reason.LOG_RATIO
        if (
            len(run) >= self._log_num_threshold
            and self._writes(profile, run) >= WRITES_MIN
            and sum(log.size for log in run) >= self._log_size_threshold
            and statistics.median(log.size for log in run) < options.small_log_size
        ):
            return Choice.LOG, Reason.MANY_SMALL_LOGS
        return Choice.NONE, Reason.BELOW_THRESHOLDS

    def _has_too_many_merged(self, profile: SliceProfile) -> bool:
        """Whether logs that were merged, and that no clean took away, cost a reader more than the base does: it opens
        them, and in the layout `lsm_tree` it reads them, too."""
        merged = profile.logs.superseded
        if len(merged) <= self._merged_max or (self._options.only is Choice.LOG and not self._is_log_alone_for_ever):
            return False
        read_bytes = sum(log.size for log in merged) if self._is_lsm_tree else 0
        return len(merged) * OPEN_BYTES + read_bytes > profile.base_bytes

    def _writes(self, profile: SliceProfile, run: Sequence[LogFile]) -> int:
        """The number of writes that the logs are of; where logs do not say it, each may be of one."""
        says = self._snapshot.config.version.has_logs_of_one_write
        return len(by_place(profile, run)) if says else len(run)

    def _log(
        self,
        profile: SliceProfile,
        wanted: tuple[LogFile, ...],
        reason: Reason,
        numbers: dict[str, int | float],
        benefit: float | None,
    ) -> GroupChoice:
        """LOG over the logs that are wanted, as far as no pending write may come between."""
        pending = self._pending_writes.first_into(*profile.group_id)
        if self._output_ranks_last and pending is None:  # one that completed too late counts as one that did not
            pending = next((log.instant for log in profile.slice.log_files if log.instant in self._late), None)
        before = () if pending is not None and self._output_ranks_last else pick_prefix(profile, before=pending)
        run = before[len(profile.live) - len(wanted) :]
        run_bytes = sum(log.size for log in run)
        needed = max(WRITES_MIN, len(wanted)) if self.form is Form.HYBRID else WRITES_MIN
        numbers = numbers | {"run_logs": len(run), "run_logs_min": needed, "run_bytes": run_bytes}
        if len(run) < needed or self._writes(profile, run) < WRITES_MIN:
            return self._none(profile, numbers, Reason.PENDING_WRITE, instant=pending, instead_of=Choice.LOG)
        # The whole slice is all files, those of no effect included: a run of the plan as FULL takes them along.
        is_hybrid = self.form is Form.HYBRID
        names_all = is_hybrid and (self._is_lsm_tree or len(run) < len(profile.live))
        is_all = is_hybrid and not names_all
        files = profile.log_files if is_all else files_of_run(profile, run)
        cost = log_cost(run_bytes=run_bytes, logs=len(run), price=self._options.price.factor)
        decision = _decision(
            profile, Choice.LOG, reason, numbers | cost.numbers, pending if len(run) < len(wanted) else None
        )
        return GroupChoice(decision, profile, cost, files, names_all, cost.benefit if benefit is None else benefit)

    def over_budget(self, choice: GroupChoice) -> Decision:
        return replace(
            choice.decision,
            choice=Choice.NONE,
            reason=Reason.OVER_BUDGET,
            numbers=dict(choice.decision.numbers) | {"budget_bytes": self._options.budget_bytes},
            instead_of=choice.decision.choice,
        )

    def _not_due(
        self, profile: SliceProfile, numbers: dict[str, int | float], reason: Reason, trigger: Trigger, firing: Firing
    ) -> GroupChoice:
        about: dict[str, int | float] = {}
        if trigger.counts_commits:
            about |= {"trigger_commits": firing.delta_commits, "trigger_commits_min": trigger.delta_commits}
        if trigger.counts_seconds:
            about |= {"trigger_seconds": firing.seconds, "trigger_seconds_min": trigger.seconds}
        about["trigger_conditions"] = trigger.conditions
        return self._none(profile, numbers | about, reason)

    def _none(
        self,
        profile: SliceProfile,
        numbers: dict[str, int | float],
        reason: Reason,
        *,
        instant: str | None = None,
        instead_of: Choice | None = None,
    ) -> GroupChoice:
        return GroupChoice(_decision(profile, Choice.NONE, reason, numbers, instant, instead_of), profile)

    def _numbers(self, profile: SliceProfile) -> dict[str, int | float]:
        known: dict[str, int | float] = {} if profile.base_rows is None else {"base_rows": profile.base_rows}
        superseded = profile.logs.superseded
        instants = {log.name.instant for log in (*profile.live, *superseded)}
        ages = self._record_ages
        oldest = max([ages.get(instant) or self._record_seconds(instant) for instant in instants], default=0)
        if self._objective is not None and profile.live:
            since = self._ages.moment(oldest)
            known["objective_seconds"] = self._objective
            known["objective_due_seconds"] = due_seconds(profile.group_id, since=since, objective=self._objective)
        return known | {
            **self._against_log,
            **self._against_log_of(profile),
            "base_bytes": profile.base_bytes,
            "log_files": len(profile.live),
            "log_bytes": profile.log_bytes,
            "median_log_bytes": profile.median_log_bytes,
            "largest_log_bytes": profile.largest_log_bytes,
            "superseded_log_files": len(superseded),
            "superseded_log_bytes": sum(log.size for log in superseded),
            "delta_commits": profile.delta_commits,
            "oldest_log_seconds": oldest,
            "base_seconds": self._ages.seconds_since(profile.slice.base_instant),
            "small_base_size": self._options.small_base_size,
            "log_ratio": self._options.log_ratio,
            "log_num_threshold": self._log_num_threshold,
            "log_size_threshold": self._log_size_threshold,
            "full_num_threshold": self._options.log_num_threshold,
            "full_size_threshold": self._options.log_size_threshold,
            "small_log_size": self._options.small_log_size,
            "large_log_ratio": self._options.large_log_ratio,
        }

    def _against_log_of(self, profile: SliceProfile) -> Mapping[str, int]:
        """Why none is made of the file group, or one of all of its logs alone."""
        found = {FOUND_IN_LOGS: 1} if profile.group_id in self._without_log else {}
        return found | ({TAKEN_WHOLE: self._logs_max} if profile.group_id in self._whole else {})

    def _record_seconds(self, instant: str) -> int:
        """How long ago the records of a log were committed: `table/backlog` has the same moment."""
        seconds = self._record_ages.get(instant)
        if seconds is None:
            seconds = self._ages.seconds_since(self._snapshot.timeline.visible_at(instant))
            self._record_ages[instant] = seconds
        return seconds


def _against_log(config: TableConfig, form: Form, options: HybridOptions) -> Mapping[str, int]:
    """Why no log compaction is made of the table, as numbers; none where one is.

    In the layout `lsm_tree` another engine that carried a LOG out would write an output that does not stand without its
    sources; a hybrid plan it carries out as FULL.
    """
    found: dict[str, int] = {}
    if not config.version.has_log_compaction:
        found[VERSION_WITHOUT_LOG] = config.version.number or 0
    if config.partial_update_mode is not None:
        found[ROWS_IN_PART] = 1
    if config.is_lsm_tree and not found:
        if not options.sources_retire:
            found[SOURCES_STAY] = 1
        elif form is not Form.HYBRID:
            found[TWO_PLANS] = 1
    return found


def _decision(
    profile: SliceProfile,
    choice: Choice,
    reason: Reason,
    numbers: dict[str, int | float],
    instant: str | None = None,
    instead_of: Choice | None = None,
) -> Decision:
    return Decision(*profile.group_id, choice, reason, numbers, instant, instead_of)
