from __future__ import annotations

from dataclasses import replace

from lakeward.daemon.scheduling.admission import Admission, Candidate, in_order
from lakeward.daemon.scheduling.schedule import Limits
from lakeward.protocol.job_kind import JobKind

ONE = Candidate("a", "default", JobKind.COMPACTION, queued_at=0.0, floor_at=1000.0, memory_bytes=100)


def names(candidates: list[Candidate]) -> str:
    return " ".join(candidate.table for candidate in candidates)


def admit(admission: Admission, *candidates: Candidate, now: float = 0.0) -> str:
    """The tables of those that were let in, each as the job that is called like it."""
    admitted = []
    for candidate in admission.admit(candidates, now):
        admission.begin(candidate.table, candidate, now)
        admitted.append(candidate)
    return names(admitted)


def test_order():
    """Floor, recovery, earliest deadline, benefit per byte, name, verification: in this order."""
    candidates = [
        replace(ONE, table="verification", service=JobKind.VERIFICATION, deadline=1.0),
        replace(ONE, table="z"),
        replace(ONE, table="y"),
        replace(ONE, table="worth-more", benefit=10.0, read_bytes=5),
        replace(ONE, table="worth", benefit=10.0, read_bytes=10),
        replace(ONE, table="late", deadline=600.0),
        replace(ONE, table="soon", deadline=500.0),
        replace(ONE, table="recovery", service=JobKind.RECOVERY),
        replace(ONE, table="old", floor_at=90.0, queued_at=50.0),
        replace(ONE, table="older", floor_at=100.0, queued_at=40.0, service=JobKind.VERIFICATION),
    ]

    ordered = names(in_order(candidates, 100.0))

    assert ordered == "older old recovery soon late worth-more worth y z verification"


def test_memory():
    """The memory of running jobs stays within the limit, one that is larger runs alone, and all comes back."""
    admission = Admission(Limits(jobs_max=9, memory_bytes=250))
    large = replace(ONE, table="large", memory_bytes=300)
    b, c = replace(ONE, table="b"), replace(ONE, table="c")

    assert admit(admission, ONE, b, c) == "a b"
    assert "needs 100 B of memory" in admission.obstacle(c, 0.0).text
    admission.end("a")
    assert admit(admission, large) == ""
    admission.end("b")
    assert admit(admission, large) == "large"
    assert admit(admission, c) == ""
    admission.end("large")
    assert admit(admission, c) == "c"


def test_group_limit_holds_only_its_group():
    """A group whose limit is reached holds back its own tables, however long they wait, and no other."""
    admission = Admission(Limits(jobs_max=9, memory_bytes=10**6, groups={"etl": 1}))
    etl = replace(ONE, group="etl", floor_at=0.0)

    second = replace(etl, table="b")

    assert admit(admission, etl, second, replace(ONE, table="c")) == "a c"
    admission.end("c")
    assert admit(admission, second) == ""
    admission.end("a")
    assert admit(admission, second) == "b"


def test_small_ones_pass_a_large_one_until_its_floor():
    """One that does not fit is passed; once it waited longer than its floor, nothing passes that takes memory."""
    admission = Admission(Limits(jobs_max=9, memory_bytes=250))
    assert admit(admission, ONE) == "a"
    large = replace(ONE, table="large", memory_bytes=250, floor_at=10.0)
    small, recovery = replace(ONE, table="small"), replace(ONE, table="r", memory_bytes=0, service=JobKind.RECOVERY)

    assert admit(admission, large, small, now=5.0) == "small"
    admission.end("small")
    assert admit(admission, large, small, recovery, now=10.0) == "r"
    admission.end("a")
    assert admit(admission, large, small, now=11.0) == "large"


def test_waiting_for_bytes():
    """One that waits for the budget says when it fits, and that is when to ask again."""
    admission = Admission(Limits(jobs_max=9, memory_bytes=10**6, io_per_hour=3600))
    assert admit(admission, replace(ONE, read_bytes=3600)) == "a"
    b = replace(ONE, table="b", read_bytes=60)

    assert admit(admission, b) == ""
    assert admission.retry_at == 60.0
    assert "1970-01-01 00:01:00 UTC" in admission.obstacle(b, 0.0).text
    assert admit(admission, b, now=60.0) == "b"
    assert admission.retry_at is None


def test_lowered_limits():
    """Jobs that run when the limits are lowered go on, and nothing begins until there are fewer."""
    admission = Admission(Limits(jobs_max=2, memory_bytes=10**6))
    b, c = replace(ONE, table="b"), replace(ONE, table="c")
    assert admit(admission, ONE, b) == "a b"

    admission.change(Limits(jobs_max=1, memory_bytes=10**6), 0.0)
    admission.end("a")
    assert admit(admission, c) == ""
    admission.end("b")
    assert admit(admission, c) == "c"
