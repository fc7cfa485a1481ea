"""Builds of indexes and their checkpoints: gone on with, or not; ended once; trimmed."""

from __future__ import annotations

from dataclasses import replace

from lakeward.base.quantities import DAY_SECONDS
from lakeward.state.records import IndexBuildRecord, IndexCheckpoint
from lakeward.state.store import Store
from tests.state.state_records import NOW

BUILD = IndexBuildRecord("b1", "orders", "places", "record", "buckets=4", NOW, instant="t1", file_groups=3)
DONE = IndexCheckpoint("day=1", "fg1", "t1", 5_000_000_000, 7, ("0/a.hfile", "1/a.hfile"), NOW)


def test_a_build_goes_on_with_its_settings(store: Store) -> None:
    """Keeps 3 of state/store: the newest that has not ended, and of other settings none; what was begun again
    changes nothing."""
    builds = store.index_builds
    builds.begin(BUILD)
    builds.begin(replace(BUILD, settings="buckets=9"))
    builds.begin(replace(BUILD, id="b0", began_at=NOW - 9))
    assert builds.going_on("orders", "places", "buckets=4") == BUILD
    assert builds.going_on("orders", "places", "buckets=9") is None
    assert builds.going_on("orders", "other", "buckets=4") is builds.going_on("other", "places", "buckets=4") is None

    builds.end("b1", "failed", "no room", at=NOW + 1, figures={"rows": 3})
    builds.end("b0", "done", None, at=NOW + 1)
    assert builds.going_on("orders", "places", "buckets=4") is None
    ended = replace(BUILD, ended_at=NOW + 1, result="failed", error="no room", figures={"rows": 3})
    assert builds.latest("orders", limit=1) == (ended,)
    assert [each.id for each in builds.latest()] == ["b1", "b0"]


def test_checkpoints_of_a_build(store: Store) -> None:
    """Keeps 4 of state/store, Keeps 5 of state/store: the newest word about a file group counts; the end
    of the build, which is said once, takes its checkpoints along and no other's."""
    builds = store.index_builds
    builds.begin(BUILD)
    builds.record("b1", [DONE, replace(DONE, file_id="fg0")])
    builds.record("b1", [replace(DONE, instant="t2", at=NOW + 1)])
    builds.record("b2", [DONE])
    builds.record("b1", [])
    assert builds.checkpoints("b1") == (
        replace(DONE, file_id="fg0", made=["0/a.hfile", "1/a.hfile"]),
        replace(DONE, instant="t2", at=NOW + 1, made=["0/a.hfile", "1/a.hfile"]),
    )
    builds.end("b1", "done", None, at=NOW + 2)
    builds.end("b1", "failed", "later", at=NOW + 3)
    assert builds.checkpoints("b1") == ()
    assert len(builds.checkpoints("b2")) == 1
    assert [(each.result, each.ended_at) for each in builds.latest()] == [("done", NOW + 2)]


def test_builds_are_trimmed(store: Store) -> None:
    """What ended is removed by age, what goes on never; checkpoints without a build go after a day."""
    builds = store.index_builds
    builds.begin(BUILD)
    builds.begin(replace(BUILD, id="b2", index_name="other"))
    builds.end("b1", "done", None, at=NOW)
    builds.record("b2", [DONE])
    builds.record("gone", [DONE])
    trimmed = store.trim(NOW + 100 * DAY_SECONDS).rows
    assert (trimmed["index_builds"], trimmed["index_checkpoints"]) == (1, 1)
    assert [each.id for each in builds.latest()] == ["b2"] and len(builds.checkpoints("b2")) == 1
