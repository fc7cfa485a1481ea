"""The text of a first configuration: what was answered, and no more."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from lakeward.config.choices import LockProvider
from lakeward.config.first_configuration import ENGINES, FirstConfiguration, WritersAnswer
from lakeward.config.settings import Settings, Writers
from tests.config.config_files import settings_of

MASTERS = ("local[4]", "yarn", "spark://master:7077", "sc://connect:15002")
STATES = (None, "/var/lib/lakeward", "postgresql://lakeward@database/lakeward")


def text_of(first: FirstConfiguration) -> str:
    return first.text(name="lakeward.toml", token_file="lakeward-token")


@pytest.mark.parametrize("engine", [*ENGINES, *MASTERS])
@pytest.mark.parametrize("writers", WritersAnswer)
def test_what_was_answered_is_what_is_read(tmp_path: Path, engine: str, writers: WritersAnswer) -> None:
    """Keeps 1 of config/first_configuration: for all answers, each key and no other."""
    (tmp_path / "lakeward-token").write_text("0123456789abcdef")
    places = ("/data/lake", 's3://lake/with "quotes"')
    for state, listen in itertools.product(STATES, ("127.0.0.1:8490", "0.0.0.0:9")):
        first = FirstConfiguration(tables=places, engine=engine, state=state, listen=listen, writers=writers)
        assert text_of(first) == text_of(first)
        settings = settings_of(tmp_path, text_of(first))
        assert settings.discovery.roots == places
        assert settings.service.listen == listen
        assert settings.service.engine == (engine if engine in ENGINES else "auto")
        assert settings.spark.is_named is (engine in MASTERS)
        assert settings.locks.writers == {"unknown": None, "stopped": Writers.STOPPED}.get(writers, Writers.SHARE)
        assert settings.locks.provider == (
            LockProvider.STORAGE if writers is WritersAnswer.STORAGE else LockProvider.FILESYSTEM
        )
        assert settings.tables == () and not settings.defaults.model_fields_set
        is_folder = state == STATES[1]
        assert (settings.service.state_folder == Path(STATES[1] or "")) is is_folder
        assert (settings.state.url is not None) is (state == STATES[2])


def test_a_token_where_others_reach_the_address(tmp_path: Path) -> None:
    """Keeps 2 of config/first_configuration."""
    (tmp_path / "lakeward-token").write_text("0123456789abcdef")
    for listen, token in (
        ("127.0.0.1:1", None),
        ("localhost:1", None),
        ("[::1]:1", None),
        ("0.0.0.0:1", "0123456789abcdef"),
        ("10.0.0.7:1", "0123456789abcdef"),
    ):
        settings = settings_of(tmp_path, text_of(FirstConfiguration(tables=("/data",), listen=listen)))
        assert settings.http_token == token, listen


def test_what_could_be_said_can_be(tmp_path: Path) -> None:
    """Each line that begins with `# key =` is one that the file takes, once the `# ` is gone."""
    (tmp_path / "lakeward-token").write_text("0123456789abcdef")
    lines = text_of(FirstConfiguration(tables=("/data/lake",))).split("\n")
    keys = {
        key for section in Settings.model_fields.values() for key in getattr(section.annotation, "model_fields", ())
    }
    said = [line.removeprefix("# ") if line[2:].split(" =")[0] in keys else line for line in lines]
    assert len([1 for before, after in zip(lines, said, strict=True) if before != after]) == 11
    said = [line for line in said if not line.startswith("remote =")]  # goes in the place of a master
    settings = settings_of(tmp_path, "\n".join(said))
    assert settings.discovery.exclude and settings.defaults.windows and settings.spark.is_named and settings.http.hosts
