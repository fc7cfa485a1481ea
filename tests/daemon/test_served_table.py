"""A table in the daemon's care, and what of its settings the scheduler hears."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from lakeward.config.choices import ForeignServices
from lakeward.config.file import load_settings
from lakeward.config.settings import Settings
from lakeward.daemon.served_table import served_table
from lakeward.protocol.job_kind import JobKind
from lakeward.services.services import load_services, merging_service

CONFIG = """
[service]
groups = { big = 1 }

[locks]
writers = "share"

[defaults]
interval = "20s"
services = ["compaction"]
foreign_services = "share"
memory = "320MiB"
windows = ["Mon-Fri 22:00-06:00 UTC"]

[[tables]]
match = "*/orders"
group = "big"
partitions = ["2026/*"]
interval = "5s"
services = ["compaction", "verification"]

[[tables]]
match = "*/secret"
locks = { writers = "stopped" }
enabled = false
"""


def settings(folder: Path, text: str = CONFIG) -> Settings:
    path = folder / "lakeward.toml"
    path.write_text(text)
    return load_settings(path, {})


def test_the_schedule_is_what_the_settings_say(tmp_path: Path) -> None:
    """The settings are the defaults, with what matches the table over them."""
    orders = served_table(settings(tmp_path), "/lake/orders", "/lake/orders", watched_since=1.0)
    schedule = orders.schedule
    assert (schedule.group, schedule.interval, schedule.memory_bytes) == ("big", 5.0, 320 * 2**20)
    assert schedule.services == {JobKind.COMPACTION, JobKind.VERIFICATION}
    assert schedule.foreign_services is ForeignServices.SHARE
    assert len(schedule.windows) == 1 and schedule.shadow is None and schedule.enabled
    assert orders.group_filter.partitions == ("2026/*",)


def test_cost_acts_once_its_week_in_shadow_is_over(tmp_path: Path) -> None:
    """Until then the other policy does, with its objective; a service gets the settings of cost beside."""
    text = 'defaults.planner = { "planner.policy" = "cost", "planner.reads" = "9/day" }\n'
    table = replace(served_table(settings(tmp_path, text), "t", "/t", watched_since=1.0), cost_since=100.0)
    early, late = table.at(100.0 + 7 * 86400 - 1), table.at(100.0 + 7 * 86400)
    assert early.shadow_until == 100.0 + 7 * 86400 and late.shadow_until is None
    assert early.is_by_cost and early.settings.planner["planner.policy"] == "rfc-103"
    assert early.schedule.objective == 86400 and late.schedule.objective == 30 * 86400
    assert late == early.at(100.0 + 7 * 86400) == table
    compaction, clean = merging_service(), next(each for each in load_services() if each.kind is JobKind.CLEAN)
    shadow = early.care_of(compaction, None, {}).shadow
    assert shadow is not None and shadow.options.reads is not None
    assert early.care_of(compaction, None, {}).rules.options.reads is None
    assert late.care_of(compaction, None, {}).shadow is None and early.care_of(clean, None, {}).shadow is None
    for since in (0.0, None):
        assert replace(table, cost_since=since).at(8 * 86400.0) == replace(table, cost_since=since)
    at_once = text.replace('9/day"', '9/day", "planner.shadow" = "0"')
    assert table.at(100.0, settings(tmp_path, at_once).table("t", "/t")).shadow_until is None


def test_the_objective_is_kept_where_a_full_compaction_may_be(tmp_path: Path) -> None:
    """A day, unless it is asked otherwise or none; a table that only has LOGs, or no compaction, has none either."""

    def objective(line: str) -> float | None:
        given = settings(tmp_path, f'[locks]\nwriters = "share"\n[defaults]\n{line}\n')
        table = served_table(given, "/lake/t", "/lake/t", watched_since=1.0)
        assert table.schedule.objective == table.settings.objective_kept
        return table.schedule.objective

    assert objective("") == 86400.0
    assert objective('objective = "2h"') == 7200.0
    assert objective('objective = "none"') is None
    assert objective('type = "log"') is None
    assert objective('type = "full"') == 86400.0
    assert objective('services = ["verification"]') is None


def test_a_table_of_its_own_kind(tmp_path: Path) -> None:
    """Its locks are its own, and it may be out of service."""
    secret = served_table(settings(tmp_path), "/lake/secret", "/lake/secret", watched_since=1.0)
    assert not secret.schedule.enabled
    assert str(secret.locks.writers) == "stopped" and secret.schedule.services == {JobKind.COMPACTION}


def test_a_table_about_whose_writers_nothing_is_said_is_in_the_shadow(tmp_path: Path) -> None:
    """A sentence says what to set."""
    silent = settings(tmp_path, CONFIG.replace('[locks]\nwriters = "share"\n', ""))
    schedule = served_table(silent, "/lake/x", "/lake/x", watched_since=1.0).schedule
    assert schedule.shadow is not None and "locks.writers" in schedule.shadow
