"""From the words of an operator to a planner: the kind of compaction, filters, and settings by their keys.

Hudi's own keys are taken verbatim where they mean the same; what Hudi has no word for starts with `planner.`.

Choose what to compact: one table snapshot in, one plan out, with a decision for each file group.

`group_rules.py` chooses FULL, LOG or nothing for each group by itself; here the groups become a plan: which come first,
and what does not fit into the budget.

Touches: nothing.
Keeps:   1. every file group has exactly one decision;
         2. a group that the objective makes due comes before all others in the plan.
See:     docs/decisions/0006-hybrid-thresholds.md, docs/decisions/0024-the-objective-binds.md
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace
from typing import Any

from lakeward.base.did_you_mean import did_you_mean
from lakeward.base.errors import LakewardError, UsageError
from lakeward.base.layers import merge_layers
from lakeward.base.quantities import DAY_SECONDS, parse_duration, parse_size
from lakeward.services.compaction.plan.budget import within_budget
from lakeward.services.compaction.plan.compaction_type import CompactionType
from lakeward.services.compaction.plan.decision import Choice, Decision, Form, PlanOutcome, Reason, decide_frozen
from lakeward.services.compaction.plan.group_rules import GroupChoice, GroupRules
from lakeward.services.compaction.plan.hybrid_options import HybridOptions
from lakeward.services.compaction.plan.price import PRICE_MAX, Price
from lakeward.services.compaction.plan.read_rates import Learned, RateRule, ReadRates, parse_rates
from lakeward.services.compaction.plan.selection import GroupFilter, Selection, parse_strategies
from lakeward.services.compaction.plan.setting_keys import SETTINGS
from lakeward.services.compaction.plan.slice_profile import SliceProfile
from lakeward.services.compaction.plan.trigger import Trigger, TriggerStrategy
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot

MEBIBYTE = 1024 * 1024
COST, RFC_103 = "cost", "rfc-103"
SHADOW_SECONDS = 7 * DAY_SECONDS

_ONLY = {CompactionType.HYBRID: None, CompactionType.FULL: Choice.FULL, CompactionType.LOG: Choice.LOG}


class HybridCompactionPlanGenerator:
    """The planner: RFC-103's rules or what pays, and the objective before them."""

    def __init__(self, options: HybridOptions | None = None) -> None:
        self.options = options or HybridOptions()

    def generate(
        self,
        snapshot: TableSnapshot,
        *,
        at: str,
        excluded: Mapping[GroupId, Reason] | None = None,
        whole: Set[GroupId] = frozenset(),
        without_log: Set[GroupId] = frozenset(),
        profiles: Mapping[GroupId, SliceProfile] | None = None,
    ) -> PlanOutcome:
        """
        Args:
            at: the plan's instant, in the table's zone; ages are measured at it.
            excluded: groups that are not compacted whatever the rules choose, each with its reason: an operator wants
                it, it is parked, or its logs were opened and cannot be merged.
            whole: groups whose LOG has to start at the oldest log, for what was found in their logs.
            without_log: groups of which no LOG is made, for that.
            profiles: of newest slices, where they are known already.
        """
        rules = GroupRules(snapshot, self.options, at, excluded or {}, whole, without_log, profiles or {})
        groups = sorted(snapshot.file_groups, key=lambda group: (group.partition_path, group.file_id))
        decisions: list[Decision] = []
        choices: dict[int, GroupChoice] = {}  # what is chosen; of the others nothing but the decision is held
        for group in groups:
            if (slice_ := group.latest_slice) is not None:
                choice = rules.decide(group, slice_)
                if choice.cost is not None:
                    choices[len(decisions)] = choice
                decisions.append(choice.decision)

        key = self.options.selection.order()
        wanted = list(choices)
        wanted.sort(
            key=lambda index: (
                choices[index].decision.reason is not Reason.OBJECTIVE,
                key(choices[index].profile, choices[index].benefit),
            )
        )
        if self.options.selection.has_budget and self.options.only is not Choice.FULL:
            io_bytes = {index: choice.io_bytes for index, choice in choices.items()}
            taken = within_budget(io_bytes, wanted, self.options.budget_bytes)
        else:
            taken = wanted
        for index in choices.keys() - set(taken):
            decisions[index] = rules.over_budget(choices[index])
        decisions += decide_frozen(snapshot.frozen)
        return PlanOutcome(tuple(decisions), tuple(choices[index].operation() for index in taken), rules.form)


@dataclass(frozen=True, slots=True)
class Planner:
    """A snapshot and the plan's instant in; FULL, LOG or nothing for each file group out. Others found out which groups
    are excluded, each with its reason, whose LOG has to start at the oldest log, and of which none is made."""

    generator: HybridCompactionPlanGenerator

    @property
    def options(self) -> HybridOptions:
        return self.generator.options

    def priced(self, price: Price) -> Planner:
        """The same at what merges take on a table."""
        return Planner(HybridCompactionPlanGenerator(replace(self.options, price=price)))

    def learning(self, learned: Learned | None) -> Planner:
        """The same, with what reads of the table showed."""
        if (reads := self.options.reads) is None:
            return self
        return Planner(HybridCompactionPlanGenerator(replace(self.options, reads=replace(reads, learned=learned))))

    def __call__(
        self,
        snapshot: TableSnapshot,
        at: str,
        excluded: Mapping[GroupId, Reason],
        whole: Set[GroupId] = frozenset(),
        without_log: Set[GroupId] = frozenset(),
        profiles: Mapping[GroupId, SliceProfile] | None = None,
    ) -> PlanOutcome:
        return self.generator.generate(
            snapshot, at=at, excluded=excluded, whole=whole, without_log=without_log, profiles=profiles
        )


def planner_of(
    kind: CompactionType,
    groups: GroupFilter,
    settings: Mapping[str, str],
    *,
    objective: float | None = None,
    trigger: Trigger | None = None,
    sources_retire: bool = False,
) -> Planner:
    """The planner of that kind, with filters and settings (`SETTINGS` are their keys). Raises `UsageError`.

    Args:
        objective: seconds that a record may be in logs only.
        trigger: the table's, where the settings give none and the rules of RFC-103 decide.
        sources_retire: what a LOG has merged goes in the layout `lsm_tree` (`HybridOptions.sources_retire`).
    """
    options = replace(
        _options(groups, settings),
        only=_ONLY[kind],
        objective=objective,
        trigger_of_rules=trigger,
        sources_retire=sources_retire,
    )
    return Planner(HybridCompactionPlanGenerator(options))


def not_readers_of(settings: Mapping[str, str]) -> tuple[str, ...]:
    """Patterns of the names of requesters and applications whose reads do not count."""
    return _patterns(settings.get("planner.not_readers", ""))


def is_by_cost(settings: Mapping[str, str]) -> bool:
    """Whether what pays is merged, so that no objective holds but an operator's."""
    return settings.get("planner.policy") == COST


def without_cost(settings: Mapping[str, str]) -> dict[str, str]:
    """The same settings by the policy that was there before `cost`."""
    return {**settings, "planner.policy": RFC_103}


def shadow_seconds_of(settings: Mapping[str, str]) -> float:
    """How long decisions by cost are only recorded on a table that was serviced before it. Raises `UsageError`."""
    seconds: float = _fields(settings, _PRICE).get("shadow", SHADOW_SECONDS)
    return seconds


def reads_everywhere_of(settings: Mapping[str, str]) -> float | None:
    """How often in a day each partition is read, as settings say; None where that differs. Raises `UsageError`."""
    rules: tuple[RateRule, ...] = _fields(settings, _PRICE).get("reads", ())
    return ReadRates(rules).everywhere


def trigger_of(settings: Mapping[str, str]) -> Trigger | None:
    """The table's trigger as the settings give it; None where they do not. Raises `UsageError`."""
    return _options(GroupFilter(), settings).table_trigger


def _form(text: str) -> Form | None:
    if text not in ("auto", "split", "hybrid"):
        raise ValueError("Write auto, split or hybrid.")
    return None if text == "auto" else Form(text)


def _policy(text: str) -> bool:
    if text not in (RFC_103, COST):
        raise ValueError("Write rfc-103 or cost.")
    return text == COST


def _patterns(text: str) -> tuple[str, ...]:
    return tuple(pattern for each in text.split(",") if (pattern := each.strip()))


def _price(text: str) -> float:
    try:
        price = float(text)
    except ValueError:
        price = math.nan
    if not 1 / PRICE_MAX <= price <= PRICE_MAX:
        raise ValueError(f"Write a number from {1 / PRICE_MAX:g} to {PRICE_MAX:g}, as `lakeward calibrate` shows it.")
    return price


def _strategy(text: str) -> TriggerStrategy:
    try:
        return TriggerStrategy(text)
    except ValueError:
        raise ValueError(f"Write one of {', '.join(TriggerStrategy)}.") from None


def _whole(text: str) -> int:
    if not text.strip().isdecimal():
        raise ValueError("Write a whole number, 0 or more.")
    return int(text)


def _ratio(text: str) -> float:
    try:
        ratio = float(text)
    except ValueError:
        ratio = math.nan
    if not 0 <= ratio < math.inf:
        raise ValueError("Write a number, 0 or more, such as 0.5.")
    return ratio


def _seconds(text: str) -> int:
    return int(parse_duration(text))


def _mebibytes(text: str) -> int:
    return _whole(text) * MEBIBYTE


_OPTIONS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "planner.small_base_size": ("small_base_size", parse_size),
    "planner.log_ratio": ("log_ratio", _ratio),
    "planner.small_log_size": ("small_log_size", parse_size),
    "planner.large_log_ratio": ("large_log_ratio", _ratio),
    "planner.publish": ("form", _form),
    "planner.budget": ("budget_bytes", parse_size),
    "hoodie.compaction.target.io": ("budget_bytes", _mebibytes),
    "hoodie.compaction.logfile.num.threshold": ("log_num_threshold", _whole),
    "hoodie.compaction.logfile.size.threshold": ("log_size_threshold", parse_size),
}
_PRICE: dict[str, tuple[str, Callable[[str], Any]]] = {
    "planner.policy": ("by_cost", _policy),
    "planner.reads": ("reads", parse_rates),
    "planner.not_readers": ("not_readers", _patterns),
    "planner.price": ("price", _price),
    "planner.shadow": ("shadow", parse_duration),
}
_TABLE_TRIGGER: dict[str, tuple[str, Callable[[str], Any]]] = {
    "hoodie.compact.inline.trigger.strategy": ("strategy", _strategy),
    "hoodie.compact.inline.max.delta.commits": ("delta_commits", _whole),
    "hoodie.compact.inline.max.delta.seconds": ("seconds", _seconds),
}
_GROUP_TRIGGER: dict[str, tuple[str, Callable[[str], Any]]] = {
    "planner.group_trigger.strategy": ("strategy", _strategy),
    "planner.group_trigger.delta_commits": ("delta_commits", _whole),
    "planner.group_trigger.elapsed": ("seconds", _seconds),
}
_SELECTION: dict[str, tuple[str, Callable[[str], Any]]] = {
    "hoodie.compaction.strategy": ("strategies", parse_strategies),
    "hoodie.compaction.daybased.target.partitions": ("target_partitions", _whole),
    "hoodie.compaction.partition.path.regex": ("partition_regex", str),
}
_MEANINGS = {*_OPTIONS, *_PRICE, *_TABLE_TRIGGER, *_GROUP_TRIGGER, *_SELECTION}
assert set(SETTINGS) == _MEANINGS, "each key has its meaning here"


def merge_settings(*layers: Mapping[str, str]) -> dict[str, str]:
    """The settings of all layers; a later one wins, also over the same setting under its other name."""
    return merge_layers(*layers, meaning=_meaning)


def _meaning(key: str) -> str:
    """The same for two keys of one setting."""
    return _OPTIONS[key][0] if key in _OPTIONS else key


def _options(groups: GroupFilter, settings: Mapping[str, str]) -> HybridOptions:
    for key in settings:
        _check_key(key)
    options: dict[str, Any] = _fields(settings, _OPTIONS)
    selection = _fields(settings, _SELECTION)
    if "strategies" in selection:
        # The two thresholds are filters of Hudi's strategies as well as thresholds of our rules.
        for name in ("log_num_threshold", "log_size_threshold"):
            if name in options:
                selection[name] = options[name]
    for name, keys in (("table_trigger", _TABLE_TRIGGER), ("group_trigger", _GROUP_TRIGGER)):
        if fields := _fields(settings, keys):
            options[name] = Trigger(**fields)
    price = _fields(settings, _PRICE)
    if price.get("by_cost"):
        options["reads"] = ReadRates(price.get("reads", ()))
    if "price" in price:
        options["price"] = Price(price["price"])
    return HybridOptions(groups=groups, selection=Selection(**selection), **options)


def _check_key(key: str) -> None:
    if key not in SETTINGS:
        raise UsageError(
            f"There is no setting {key}.",
            why=did_you_mean(key, SETTINGS, otherwise="It is none of the planner's."),
            remedy=f"The settings are {', '.join(SETTINGS)}.",
        )


def _fields(given: Mapping[str, str], keys: Mapping[str, tuple[str, Callable[[str], Any]]]) -> dict[str, Any]:
    fields = {}
    for key, (name, parse) in keys.items():
        if key not in given:
            continue
        try:
            fields[name] = parse(given[key])
        except LakewardError:
            raise
        except ValueError as error:
            raise UsageError(
                f"{key} cannot be '{given[key]}'.", why=str(error), remedy="Correct the setting."
            ) from error
    return fields
