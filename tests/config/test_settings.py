"""The models: how values are written, and which settings a table gets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from lakeward.config.settings import LockSettings, Settings, TableSettings, Writers
from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.lock.file_system_lock import FLINK_LOCK, SPARK_LOCK, FileSystemLockOptions
from lakeward.protocol.lock.lock_choice import LockOptions
from lakeward.protocol.lock.storage_lock import StorageLockOptions
from lakeward.protocol.lock.zookeeper_options import ZooKeeperLockOptions
from lakeward.protocol.writers_conflict import WritersConflict
from lakeward.services.services import ROUND


def settings(**sections: Any) -> Settings:
    return Settings.model_validate(sections)


@pytest.mark.parametrize(("written", "seconds"), [("15m", 900.0), ("1.5h", 5400.0), (90, 90.0), (0.5, 0.5)])
def test_durations(written: object, seconds: float) -> None:
    """A duration is written with a unit, or is a number of seconds."""
    assert settings(defaults={"interval": written}).defaults.interval == seconds


@pytest.mark.parametrize(("written", "size"), [("512MiB", 2**29), (1024, 1024), (1e9, 10**9)])
def test_sizes(written: object, size: int) -> None:
    """A size is written with a unit, or is a number of bytes."""
    assert settings(service={"memory": written}).service.memory == size


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("defaults", "interval", True),
        ("defaults", "interval", "0s"),
        ("defaults", "interval", float("nan")),
        ("defaults", "interval", float("inf")),
        ("defaults", "interval", -1),
        ("service", "memory", float("inf")),
        ("service", "memory", False),
        ("service", "jobs_max", 0),
        ("service", "jobs_max", True),
        ("service", "jobs_max", 1.0),
        ("service", "jobs_max", "2"),
        ("service", "name", ""),
        ("service", "name", "a/b"),
        ("service", "name", 5),
        ("service", "groups", {"nightly": 0}),
        ("service", "groups", {"a b": 1}),
        ("service", "listen", "8490"),
        ("service", "listen", "localhost:70000"),
        ("service", "listen", "::1:8490"),
        ("service", "log_level", "loud"),
        ("locks", "writers", "some"),
        ("locks", "provider", "hivemetastore"),
        ("locks", "expire", 30),
        ("discovery", "roots", "/data"),
        ("discovery", "roots", ["data"]),
        ("discovery", "roots", ["hdfs://name/data"]),
        ("discovery", "roots", ["s3://bucket//data/../x"]),
        ("discovery", "include", [""]),
        ("discovery", "include", ["[ab"]),
        ("defaults", "services", ["cleaning"]),
        ("defaults", "services", ["recovery"]),
        ("defaults", "windows", ["sometimes"]),
        ("defaults", "timezone", "Mars/Olympus"),
        ("defaults", "codec", "lzo"),
        ("defaults", "verify", "yes"),
        ("defaults", "enabled", 1),
        ("defaults", "memory", "299MiB"),
        ("defaults", "memory", "1KiB"),
        ("defaults", "objective", "0s"),
        ("defaults", "objective", "off"),
        ("defaults", "nonsense", 1),
    ],
)
def test_wrong_values(section: str, key: str, value: object) -> None:
    """Are refused where they stand, and never bent into something that fits."""
    with pytest.raises(ValidationError) as refused:
        settings(**{section: {key: value}})
    assert {error["loc"][:2] for error in refused.value.errors()} == {(section, key)}


def test_an_operation_has_what_it_needs() -> None:
    """Less than 300 MiB is refused with the number."""
    assert settings(defaults={"memory": "300MiB"}).defaults.memory == 300 * 1024**2
    with pytest.raises(ValidationError) as refused:
        settings(defaults={"memory": "1KiB"})
    assert refused.value.errors()[0]["msg"] == (
        "Value error, An operation needs 300MiB or more: Python and its libraries take most of that before any row."
    )


def test_an_objective_is_a_duration_or_none() -> None:
    """A day, unless it is given."""
    assert settings().defaults.objective == 86400
    assert settings(defaults={"objective": "90m"}).defaults.objective == 5400
    assert settings(defaults={"objective": "none"}).defaults.objective is None


def test_verbatim_settings_are_text() -> None:
    """Numbers and booleans become the text that the library they are passed to expects."""
    given = settings(spark={"conf": {"spark.executor.cores": 4, "spark.x": True}})
    assert given.spark.conf == {"spark.executor.cores": "4", "spark.x": "true"}


def test_defaults_then_matches_in_order() -> None:
    """A later override wins, key by key; one that does not match says nothing."""
    given = settings(
        defaults={"interval": "20s", "memory": "1GiB"},
        tables=[
            {"match": "*/orders*", "interval": "30s", "objective": "2h"},
            {"match": "*/clicks", "objective": "9h"},
            {"path": "/data/orders", "name": "orders", "interval": "40s"},
            {"match": "ord*", "memory": "2GiB"},
        ],
    )
    table = given.table("orders", "/data/orders")
    assert (table.interval, table.memory, table.objective) == (40, 2**31, 7200)
    other = given.table("/data/orders_old", "/data/orders_old")
    assert (other.interval, other.objective, other.memory) == (30, 7200, 2**30)
    assert given.table("/x", "/x").interval == 20


def test_a_later_default_still_overrides() -> None:
    """What is given counts, even where it is what the default is."""
    given = settings(defaults={"verify": False}, tables=[{"match": "*", "verify": True}])
    assert given.table("/x", "/x").verify


def test_planner_settings_are_merged_by_meaning() -> None:
    """Key by key, and a later layer also overrides a setting under its other name."""
    given = settings(
        defaults={"planner": {"hoodie.compaction.target.io": 100, "planner.log_ratio": 1}},
        tables=[{"match": "*", "planner": {"planner.budget": "5GiB"}}],
    )
    assert given.table("/x", "/x").planner == {"planner.budget": "5GiB", "planner.log_ratio": "1"}


def test_locks_are_merged_key_by_key() -> None:
    """A table says what is different for it, and the rest is as for all."""
    given = settings(
        locks={"writers": "share", "writers_conflict": "1.0"},
        tables=[{"match": "*a", "locks": {"expire": "10m"}}, {"match": "*a", "locks": {"writers": "stopped"}}],
    )
    assert given.table("a", "/a").locks == LockSettings(
        writers=Writers.STOPPED, writers_conflict=WritersConflict.RELEASE_1_0, expire=600
    )
    assert given.table("b", "/b").locks == LockSettings(
        writers=Writers.SHARE, writers_conflict=WritersConflict.RELEASE_1_0
    )


def test_where_the_lock_is_in_zookeeper_is_merged_key_by_key() -> None:
    """The servers are said once, and a table says how its lock is called there."""
    given = settings(
        locks={"provider": "zookeeper", "zookeeper": {"url": "zk:2181", "base_path": "/locks"}},
        tables=[
            {"match": "*a", "locks": {"writers": "share", "zookeeper": {"lock_key": "orders"}}},
            {"match": "*b", "locks": {"writers": "share", "provider": "filesystem"}},
        ],
    )
    locks = given.table("a", "/a").locks
    assert locks is not None
    assert locks.options == ZooKeeperLockOptions("zk:2181", "/locks", "orders")
    locks = given.table("b", "/b").locks
    assert locks is not None
    assert locks.options == FileSystemLockOptions()


def test_where_a_table_has_its_settings_from() -> None:
    """The entry that counts is reported for each key."""
    given = settings(
        locks={"expire": "5m"},
        defaults={"interval": "20s", "planner": {"planner.log_ratio": 1, "planner.publish": "split"}},
        tables=[
            {"match": "*", "interval": "5s", "locks": {"writers": "share"}},
            {"match": "*", "planner": {"planner.log_ratio": 2}},
        ],
    )
    assert given.table_sources("/a", "/a") == {
        ("locks", "expire"): ("locks", "expire"),
        ("locks", "writers"): ("tables", 0, "locks", "writers"),
        ("interval",): ("tables", 0, "interval"),
        ("planner", "planner.log_ratio"): ("tables", 1, "planner", "planner.log_ratio"),
        ("planner", "planner.publish"): ("defaults", "planner", "planner.publish"),
    }


def test_named_tables() -> None:
    """Tables with a path are named, each once, under their name or else their base path; URLs become paths."""
    given = settings(
        tables=[
            {"match": "*"},
            {"path": "/data/a/"},
            {"path": "file:///data/b", "name": "b"},
        ]
    )
    assert given.named_tables == (("/data/a", "/data/a"), ("b", "/data/b"))
    assert (given.name_of("/data/b"), given.name_of("/data/c")) == ("b", "/data/c")


@pytest.mark.parametrize(
    ("locks", "options"),
    [
        ({"writers": "share", "expire": 60}, FileSystemLockOptions((SPARK_LOCK, FLINK_LOCK), 60, 60)),
        ({"writers": "stopped"}, FileSystemLockOptions((SPARK_LOCK,), 60, None, shared=False)),
        ({"writers": "share", "provider": "storage"}, StorageLockOptions(wait_seconds=60)),
        ({}, FileSystemLockOptions((SPARK_LOCK, FLINK_LOCK), 60, None)),
        (
            {"writers": "share", "provider": "zookeeper", "zookeeper": {"url": "zk:2181"}},
            ZooKeeperLockOptions("zk:2181", None, None, 60, 60),
        ),
        (
            {
                "writers": "share",
                "provider": "zookeeper",
                "zookeeper": {"url": "zk", "base_path": "/locks", "lock_key": "a"},
            },
            ZooKeeperLockOptions("zk", "/locks", "a", session_seconds=60, wait_seconds=60),
        ),
        (
            {"writers": "stopped", "provider": "zookeeper", "zookeeper": {"url": "zk:2181"}},
            FileSystemLockOptions((SPARK_LOCK,), 60, None, shared=False),
        ),
    ],
)
def test_how_the_lock_is_taken(locks: dict[str, Any], options: LockOptions) -> None:
    """The lock is shared with Spark's and Flink's writers; with stopped writers it keeps only our own processes
    apart."""
    assert LockSettings(**locks).options == options
    assert LockSettings(**locks).waiting(5).options == replace(options, wait_seconds=5)


def test_without_a_word_about_the_writers_nothing_is_written() -> None:
    """The reason says what to set."""
    why = Settings().table("/x", "/x").locks.why_nothing_is_written  # type: ignore[union-attr]
    assert why is not None
    assert "locks.writers" in why
    assert LockSettings(writers=Writers.STOPPED).why_nothing_is_written is None


def test_the_store() -> None:
    """SQLite in the state folder, unless a URL says otherwise."""
    assert settings(service={"state_folder": "/var/lib/x"}).store_url == "sqlite:////var/lib/x/lakeward.db"
    assert settings(state={"url": "postgresql://h/d"}).store_url == "postgresql://h/d"


def test_nothing_printed_holds_a_secret() -> None:
    """A process that logs the settings logs no password."""
    given = settings(state={"url": "postgresql://u:hunter2@h/d"}, spark={"remote": "sc://h/;token=hunter2"})
    assert "hunter2" not in repr(given) + str(given) + given.model_dump_json()


def test_services_are_the_schedulers() -> None:
    """Recovery and the expiry of plans belong to compaction and are not chosen."""
    assert TableSettings().services == (*ROUND, JobKind.VERIFICATION)
    assert settings(defaults={"services": ["compaction"]}).defaults.services == (JobKind.COMPACTION,)
