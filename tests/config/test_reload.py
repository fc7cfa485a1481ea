"""All of the new configuration or none of it, and what needs a restart is named."""

from __future__ import annotations

from pathlib import Path

from lakeward.config.reload import reload
from tests.config.config_files import settings_of, write

BEFORE = """
    service.jobs_max = 2
    locks.writers = "share"
    [[tables]]
    match = "*/a"
    interval = "5s"
    """


def test_a_file_with_a_problem_keeps_the_old_settings(tmp_path: Path) -> None:
    """None of its settings is taken, even where most of it is right."""
    current = settings_of(tmp_path, BEFORE)
    reloaded = reload(current, write(tmp_path, BEFORE.replace("= 2", "= 3") + "\n    intervall = 1"), {})
    assert reloaded.settings is None
    assert [problem.what for problem in reloaded.problems] == ["There is no key tables[1].intervall."]
    assert reloaded.changed == reloaded.needs_restart == ()


def test_a_file_that_went_away_keeps_the_old_settings(tmp_path: Path) -> None:
    """A volume that is not mounted for a moment changes nothing."""
    reloaded = reload(settings_of(tmp_path, BEFORE), tmp_path / "gone.toml", {})
    assert reloaded.settings is None
    assert reloaded.problems


def test_the_same_file_changes_nothing(tmp_path: Path) -> None:
    """Written otherwise, it is still the same."""
    current = settings_of(tmp_path, BEFORE)
    reloaded = reload(current, write(tmp_path, BEFORE.replace('"5s"', "5")), {})
    assert reloaded.settings == current
    assert reloaded.changed == reloaded.needs_restart == ()


def test_changes_count_at_once_and_are_named(tmp_path: Path) -> None:
    """Each changed key is named; overrides as a whole."""
    current = settings_of(tmp_path, BEFORE)
    after = BEFORE.replace("jobs_max = 2", "jobs_max = 7").replace("5s", "6s").replace("share", "stopped")
    reloaded = reload(current, write(tmp_path, after), {})
    assert reloaded.settings == settings_of(tmp_path, after)
    assert reloaded.changed == ("service.jobs_max", "locks.writers", "tables")


def test_an_override_that_says_what_the_default_says_is_a_change(tmp_path: Path) -> None:
    """It wins over [defaults], which it did not before."""
    text = "[defaults]\nverify = false\n[[tables]]\nmatch = '*'"
    reloaded = reload(settings_of(tmp_path, text), write(tmp_path, text + "\nverify = true"), {})
    assert reloaded.changed == ("tables",)


def test_what_needs_a_restart_keeps_its_value(tmp_path: Path) -> None:
    """Its key is named, and everything else of the file counts all the same."""
    current = settings_of(tmp_path, BEFORE)
    after = """
        service = { name = "other", listen = "127.0.0.1:1", jobs_max = 7, engine = "local" }
        state = { url = "postgresql://h/d" }
        spark = { master = "yarn" }
        """
    reloaded = reload(current, write(tmp_path, after), {})
    assert reloaded.settings is not None
    assert reloaded.needs_restart == ("service.name", "service.listen", "spark.master", "state.url")
    assert reloaded.changed == ("service.jobs_max", "service.engine", "locks.writers", "tables")
    assert reloaded.settings.service == current.service.model_copy(update={"jobs_max": 7, "engine": "local"})
    assert reloaded.settings.state == current.state
    assert reloaded.settings.spark.master == "local[*]"


def test_the_environment_still_counts(tmp_path: Path) -> None:
    """A reloaded file does not go before what the process was started with."""
    environ = {"LAKEWARD__SERVICE__GRACE": "3s"}
    current = settings_of(tmp_path, BEFORE, environ)
    reloaded = reload(current, write(tmp_path, "service.grace = '2s'\n" + BEFORE), environ)
    assert reloaded.settings is not None
    assert reloaded.settings.service.grace == 3
