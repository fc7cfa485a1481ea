"""A LOG over the prefix that the planner picks changes no row, whatever happens beside it; and the picker itself."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import product

import pytest

from lakeward.format.file_name import LogFileName, NativeLogKind, NativeLogName
from lakeward.merge.rules.merge_rules import MergeMode, MergeRules
from lakeward.merge.rules.reference import LogRecord, Row, fold_key, merge_key
from lakeward.services.compaction.plan.log_runs import by_place, first_of_run
from lakeward.services.compaction.plan.slice_profile import SliceProfile, profile_slice
from lakeward.table.file_group import LogFile
from tests.services.compaction.plan.interleavings import (
    FULL_AFTER,
    FULL_BEFORE,
    FULL_BETWEEN,
    FULL_WHILE_PENDING,
    FULL_WHILE_PENDING_AGAIN,
    LOG,
    LOG_AGAIN,
    NEVER,
    Node,
    Picker,
    Shape,
    Story,
    ends_of,
    follow_the_rule,
    ignore_pending_writes,
    requests_after,
    shapes,
    start_behind_the_oldest,
    stories,
    story_of,
)
from tests.synthetic_table import TOKEN, file_group, minute

RULES = [MergeRules(mode, ("ts",)) for mode in MergeMode]

# No FULL, or one before, while or after either LOG is open. One while a LOG is pending is Hudi's: we would wait.
FULL_AT = (NEVER, FULL_BEFORE, FULL_WHILE_PENDING, FULL_BETWEEN, FULL_WHILE_PENDING_AGAIN, FULL_AFTER)

PUT, DELETE, DELETE_ROW = "put", "delete", "delete row"
ACTIONS = ((None, 0), (PUT, 1), (PUT, 2), (DELETE, None), (DELETE, 1))
"""What a write does to a key: nothing, a row with an ordering value, a delete with one or without."""
MORE_ACTIONS = (*ACTIONS, (PUT, 3), (DELETE, 2), (DELETE_ROW, 1), (DELETE_ROW, 2))
BASES = (None, 1, 2)
"""Ordering value of the key's row in the base; None: it is not there."""

Actions = Sequence[tuple[str | None, int | None]]


def by_commit_time() -> MergeRules:
    return next(rules for rules in RULES if rules.mode is MergeMode.COMMIT_TIME_ORDERING)


def by_event_time() -> MergeRules:
    return next(rules for rules in RULES if rules.mode is MergeMode.EVENT_TIME_ORDERING)


def record(write: int, kind: str | None, ordering: int | None) -> LogRecord | None:
    if kind is None:
        return None
    if kind == DELETE:
        return LogRecord(None, ordering)
    row = {"ts": ordering, "written_by": write}
    return LogRecord(row | {"_hoodie_is_deleted": True} if kind == DELETE_ROW else row)


def records_of(nodes: Sequence[Node], actions: Actions, rules: MergeRules) -> list[LogRecord]:
    """What readers fold of one key, oldest first."""
    found: list[LogRecord] = []
    for node in nodes:
        if isinstance(node, int):
            if (single := record(node, *actions[node])) is not None:
                found.append(single)
        elif inner := records_of(node, actions, rules):
            found.append(fold_key(inner, rules, integers=()))
    return found


def read(shape: Shape, base: int | None, actions: Actions, rules: MergeRules) -> Row | None:
    """The key's row: the FULL merges the older slice into a base, and the newer slice lies on top."""
    row: Row | None = None if base is None else {"ts": base, "written_by": -1}
    for nodes in shape:
        row = merge_key(row, records_of(nodes, actions, rules), rules, integers=())
    return row


@cache
def all_shapes(writes: int, pick: Picker) -> frozenset[tuple[Shape, Shape]]:
    """Shapes of all stories in which a LOG made a difference to what is folded."""
    pairs = {shapes(story, pick) for story in stories(writes, full_at=FULL_AT)}
    return frozenset((without, with_) for without, with_ in pairs if without != with_)


def differences(
    pairs: frozenset[tuple[Shape, Shape]],
    rules: MergeRules,
    writes: int,
    choices: Sequence[tuple[str | None, int | None]] = ACTIONS,
) -> int:
    return sum(
        read(without, base, actions, rules) != read(with_, base, actions, rules)
        for without, with_ in pairs
        for base in BASES
        for actions in product(choices, repeat=writes)
    )


@pytest.mark.parametrize("rules", RULES, ids=lambda rules: rules.mode.value)
@pytest.mark.parametrize("writes", [2, 3, pytest.param(4, marks=pytest.mark.slow)])
def test_no_story_of_a_few_writes_changes_a_row(writes: int, rules: MergeRules) -> None:
    """Keeps 1 of services/compaction/plan/log_runs: every story of up to four writes, two LOGs and a FULL, with
    everything that the writes can do to a key."""
    pairs = all_shapes(writes, follow_the_rule)
    assert pairs
    assert differences(pairs, rules, writes) == 0


@pytest.mark.slow
def test_no_story_with_a_run_behind_the_oldest_log_changes_a_row() -> None:
    """Keeps 1 of services/compaction/plan/log_runs: a run may start there by commit time whatever is written, and by
    event time where each delete has an ordering value. What else is right there is in tests/read/test_log_deletes."""
    pairs = all_shapes(4, start_behind_the_oldest)
    assert any(with_[0] and isinstance(with_[0][-1], tuple) and len(with_[0]) > 1 for _, with_ in pairs)
    ordered = [action for action in ACTIONS if action != (DELETE, None)]
    assert differences(pairs, by_commit_time(), 4) == 0
    assert differences(pairs, by_event_time(), 4, ordered) == 0


@pytest.mark.slow
@pytest.mark.parametrize("rules", RULES, ids=lambda rules: rules.mode.value)
def test_no_story_of_six_writes_changes_a_row(rules: MergeRules) -> None:
    """Six writes over three keys: stories and actions by chance, of a wider choice. LAKEWARD_SEED repeats a run."""
    seed = int(os.environ.get("LAKEWARD_SEED", random.randrange(2**32)))
    print(f"LAKEWARD_SEED={seed}")
    chance = random.Random(seed)
    pairs = sorted({shapes(story, follow_the_rule) for story in some_stories(6, chance, 6000)}, key=repr)
    changed = [(without, with_) for without, with_ in pairs if without != with_]
    assert len(changed) > 50
    for without, with_ in changed:
        for _ in range(20):
            for _key in range(3):
                base = chance.choice(BASES)
                actions = [chance.choice(MORE_ACTIONS) for _ in range(6)]
                expected = read(without, base, actions, rules)
                assert read(with_, base, actions, rules) == expected, (without, with_, base, actions)


def some_stories(writes: int, chance: random.Random, count: int) -> Iterator[Story]:
    for _ in range(count):
        full = chance.choice(FULL_AT)
        requests = requests_after(sorted(chance.choice((0, 0, 0, LOG, LOG_AGAIN)) for _ in range(writes)))
        yield story_of(requests, [chance.choice(ends_of(request, full)) for request in requests], full)


@pytest.mark.wide
def test_the_stories_can_report_a_wrong_rule() -> None:
    """Without the rule on pending writes rows change under either mode; a run that leaves the oldest log out changes
    them by event time only. So the stories above would have shown it."""
    commit_time, event_time = by_commit_time(), by_event_time()
    careless = all_shapes(3, ignore_pending_writes)
    assert differences(careless, commit_time, 3) > 0
    assert differences(careless, event_time, 3) > 0
    middle = all_shapes(4, start_behind_the_oldest)
    assert differences(middle, commit_time, 4) == 0
    assert differences(middle, event_time, 4) > 0


@pytest.mark.slow
def test_the_stories_hold_what_they_promise() -> None:
    """Late writers, a LOG on a LOG, and an output that a FULL left without its sources are among them."""
    pairs = all_shapes(4, follow_the_rule)
    assert any(with_ == (((0, 1), 2, 3), ()) for _, with_ in pairs), "a run of two, and writes that came late"
    assert any(with_ == ((((0, 1), 2), 3), ()) for _, with_ in pairs), "a LOG on a LOG"
    assert any(with_[0] and with_[1] for _, with_ in pairs), "logs on both sides of a FULL"
    lonely = shapes(
        next(s for s in stories(2, full_at=(FULL_WHILE_PENDING,)) if all(w.completed < LOG for w in s.writes)),
        follow_the_rule,
    )
    assert lonely == (((0, 1), ()), ((0, 1), ())), "the output completes after the FULL and is not used"


def sizes(*bytes_: int) -> SliceProfile:
    logs = [(minute(20 + number), size) for number, size in enumerate(bytes_)]
    return profile_slice(file_group("p", "g", base=(minute(1), 1), logs=logs).slices[0])


def test_the_first_log_of_a_run_at_least_doubles() -> None:
    """Keeps 3 of services/compaction/plan/log_runs: whatever the sizes are, and a run that could start earlier does."""
    seed = int(os.environ.get("LAKEWARD_SEED", random.randrange(2**32)))
    print(f"LAKEWARD_SEED={seed}")
    chance = random.Random(seed)
    for _ in range(500):
        profile = sizes(*(chance.choice([1, 2, 5, 20, 100]) for _ in range(chance.randint(1, 12))))
        logs, first = profile.live, first_of_run(profile, bytes_max=60)
        if any(log.size > 60 for log in logs):
            assert first > max(number for number, log in enumerate(logs) if log.size > 60)
        run = [log.size for log in logs[first:]]
        assert len(run) < 2 or run[0] <= sum(run[1:])
        for earlier in range(first):
            before = [log.size for log in logs[earlier:]]
            assert before[0] > sum(before[1:]) or max(before) > 60


def test_a_run_has_all_logs_of_a_write_or_none() -> None:
    """Keeps 4 of services/compaction/plan/log_runs: an output stands for instants, so a run from the second log of a
    write on would hide the rows of the first, here 1 GiB of them. So it is of the rows and deletes of one native
    flush."""
    one, another = minute(20), minute(21)
    rolled_over = tuple(
        LogFile(LogFileName("g", one, number, TOKEN), "p", size) for number, size in ((1, 1024), (2, 1))
    )
    flush = tuple(
        LogFile(NativeLogName("g", TOKEN, another, 1, kind), "p", 3) for kind in NativeLogKind if kind != "cdc"
    )
    later = sizes(0, 0, 1, 2).live[2:]
    slice_ = replace(sizes(1).slice, log_files=(*rolled_over, *flush, *later))
    profile = profile_slice(slice_)
    assert [len(logs) for logs in by_place(profile, profile.live)] == [2, 2, 1, 1]
    assert first_of_run(profile, bytes_max=math.inf) == 4, "6 of rows and deletes are more than 3"
    assert first_of_run(profile, bytes_max=2000) == 4
    grown = profile_slice(
        replace(slice_, log_files=(*slice_.log_files, LogFile(LogFileName("g", minute(30), 1, TOKEN), "p", 4)))
    )
    assert first_of_run(grown, bytes_max=math.inf) == 2
    assert first_of_run(grown, bytes_max=2) == len(grown.live)


def test_bytes_written_grow_linearly() -> None:
    """A log of one a commit, a LOG as soon as five are there: each byte is written a few times, not once a LOG; where
    each run starts at the oldest log, once a LOG."""

    def written(commits: int, *, whole: bool) -> int:
        live, total = [], 0
        for _ in range(commits):
            live.append(1)
            first = 0 if whole else first_of_run(sizes(*live), bytes_max=float("inf"))
            if len(live) - first >= 5:
                total += sum(live[first:])
                live[first:] = [sum(live[first:])]
        return total

    assert written(400, whole=False) <= 8 * 400
    assert written(800, whole=False) <= 9 * 800
    assert written(400, whole=True) > 40 * 400
