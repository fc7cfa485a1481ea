"""How much a clean keeps where no setting says so: Hudi's default, or what the table's own writers keep, if that is
more.

What the newest clean of another engine says is taken for what its writers are set to:

    commits    it names the earliest instant and the last commit that it knew of: as many as lie between these two. A
               pending write that held it back makes that more than they are set to, never less
    hours      they lie between when it was planned and the commit before the earliest, which it did not keep; in whole
               hours, upward. Where no commit before is on the timeline any more, nothing says
    versions   it does not say how many

Where nothing says so, nothing is chosen: an operator says it, or the writers go on cleaning.

A clean of Lakeward that was made by such a rule says so (`RETAINED`), since it stands before the writers' from then on.

Touches: nothing.
Keeps:   1. by commits never fewer are kept than Hudi's default, nor than lay between what the writers' clean names;
         2. what cannot be known gives no policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import tzinfo
from math import ceil

from lakeward.format.timeline.instant import comparable_time, parse_instant_time
from lakeward.services.clean.plan.policy import HUDI_NAMES, CleanPolicy, CleanPolicyKind
from lakeward.table.timeline.cleans import CleanRetention
from lakeward.table.timeline.timeline import Timeline

RETAINED = "lakeward.retained"
"""A key of a clean's extra metadata: `commits 24`, what was adopted for it."""

_SAY_IT = "set clean.policy and clean.retain, or leave cleaning to them"


@dataclass(frozen=True, slots=True)
class AdoptedRetention:
    policy: CleanPolicy | None
    """None where nothing says so."""
    why: str
    """Completes the sentence: So much is kept because ..."""
    is_of_writers: bool = False

    @property
    def extra_metadata(self) -> Mapping[str, str]:
        """For the plan of a clean that uses it."""
        if self.policy is None or not self.is_of_writers:
            return {}
        return {RETAINED: f"{self.policy.kind} {self.policy.retain}"}


def adopt_retention(found: CleanRetention | None, timeline: Timeline, *, zone: tzinfo | None) -> AdoptedRetention:
    """What a clean keeps where an operator did not choose.

    Args:
        found: the newest clean that says anything: another engine's, or one of Lakeward's that was made by this
        rule.
        zone: of the table's instants; hours cannot be counted where it is not known.
    """
    if found is None:
        return AdoptedRetention(CleanPolicy(), "it is Hudi's default")
    by = f"clean {found.instant} of the table's writers"
    if found.adopted:
        kind, _, number = found.adopted.partition(" ")
        policy = CleanPolicy(CleanPolicyKind(kind), int(number))
        return AdoptedRetention(policy, "the table's writers kept so much, by an earlier clean", True)
    if found.policy == HUDI_NAMES[CleanPolicyKind.VERSIONS]:
        return AdoptedRetention(None, f"{by} kept file versions, and does not say how many: {_SAY_IT}")
    times = [comparable_time(each.time) for each in timeline.completed_writes]
    earliest = comparable_time(found.earliest_retained) if found.earliest_retained else ""
    if earliest not in times:
        return AdoptedRetention(None, f"{by} names no commit of the active timeline that it kept: {_SAY_IT}")
    first = times.index(earliest)
    if found.policy == HUDI_NAMES[CleanPolicyKind.COMMITS]:
        last = comparable_time(found.last_completed)
        kept = sum(time <= last for time in times[first:])
        return _at_least_default(kept, by)
    if found.policy != HUDI_NAMES[CleanPolicyKind.HOURS] or zone is None or first == 0:
        return AdoptedRetention(None, f"it is unknown how many hours {by} kept: {_SAY_IT}")
    before = timeline.completed_writes[first - 1].time
    milliseconds = parse_instant_time(found.instant, zone) - parse_instant_time(before, zone)
    hours = max(1, ceil(milliseconds / 3_600_000))
    return AdoptedRetention(CleanPolicy(CleanPolicyKind.HOURS, hours), f"{by} kept {hours} h at most", True)


def _at_least_default(kept: int, by: str) -> AdoptedRetention:
    if kept <= CleanPolicy().retain:
        return AdoptedRetention(CleanPolicy(), f"it is Hudi's default, and {by} kept {kept} commits")
    return AdoptedRetention(CleanPolicy(CleanPolicyKind.COMMITS, kept), f"{by} kept {kept} commits", True)
