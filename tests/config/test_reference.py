"""The keys as values: every one is described, and reads back as what it is."""

from __future__ import annotations

import tomllib

import pytest
from pydantic import SecretStr

from lakeward.config.reference import Key, sections, write_value
from lakeward.config.settings import LockSettings, Settings

KEYS = [key for section in sections() for key in section.keys]


@pytest.mark.parametrize("key", KEYS, ids=lambda key: f"{key.section}.{key.name}")
def test_every_key_is_described(key: Key) -> None:
    """The reference has a sentence for each, and how its value is written."""
    assert key.description.endswith(".")
    assert key.kind


def test_written_defaults_are_the_defaults() -> None:
    """The reference can be copied into a file and changes nothing."""
    text = "".join(
        f"{key.section}.{key.name} = {key.default}\n"
        for key in KEYS
        if key.default is not None and key.section != "tables"
    )
    assert Settings.model_validate(tomllib.loads(text)) == Settings()


def test_there_are_few_keys() -> None:
    """A key is what an operator sets for a table or a daemon; the rest are constants (docs/decisions/0104). Sixty,
    ten of clustering, TTL and logs that retire, and six of tokens, readers, budgets and metrics."""
    assert len(KEYS) <= 76


def test_every_section_is_there() -> None:
    """The sections stand in the order of the models."""
    names = [section.name for section in sections()]
    assert names[names.index("locks") + 1] == "locks.zookeeper"
    assert [name for name in names if "." not in name] == list(Settings.model_fields)


@pytest.mark.parametrize(
    ("value", "kind", "written"),
    [
        (True, "", "true"),
        (90.0, "duration", '"90s"'),
        (0.5, "", "0.5"),
        (2**20, "size above 0", '"1MiB"'),
        (5, "", "5"),
        ('a"b\\', "", '"a\\"b\\\\"'),
        (("a", "b"), "", '["a", "b"]'),
        ({}, "", "{}"),
        ({"a.b": "1", "c-d": 2}, "", '{ "a.b" = "1", c-d = 2 }'),
        (LockSettings(expire=300), "", '{ expire = "5m" }'),
        (SecretStr("x"), "", '"[hidden]"'),
    ],
)
def test_values_as_one_would_write_them(value: object, kind: str, written: str) -> None:
    """TOML that reads back as the same."""
    assert write_value(value, kind) == written
    tomllib.loads(f"x = {written}")


def test_the_keys_that_need_a_restart() -> None:
    """What a running daemon is built on; everything else must be able to change."""
    assert {f"{key.section}.{key.name}" for key in KEYS if key.restart} == {
        "service.name",
        "service.listen",
        "service.state_folder",
        "http.token_file",
        "http.token",
        "http.behind_proxy",
        "http.hosts",
        "spark.master",
        "spark.remote",
        "spark.conf",
        "state.url",
        "state.url_file",
    }
