"""The reference of the configuration is current, and the examples are configurations."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from deploy.config_page import DOCUMENT, EVERYTHING, ROOT, document, everything
from lakeward.config.file import read_config
from lakeward.config.reference import sections

EXAMPLES = sorted((ROOT / "deploy" / "config").glob("*.toml"))


def test_the_reference_is_current() -> None:
    """Remade by `make config-page`."""
    assert DOCUMENT.read_text() == document(DOCUMENT.read_text())
    assert EVERYTHING.read_text() == everything()


def test_the_reference_names_every_key() -> None:
    """The file with everything names them, too."""
    page, file = DOCUMENT.read_text(), EVERYTHING.read_text()
    for section in sections():
        for key in section.keys:
            assert f"| `{key.name}` |" in page
            assert re.search(rf"^(# )?{key.name} = ", file, re.MULTILINE)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_are_right(path: Path) -> None:
    """Each example is valid unchanged, without an environment."""
    assert read_config(path, {}).problems == ()


def test_the_examples_are_there() -> None:
    """The documentation names these."""
    assert {path.name for path in EXAMPLES} == set(re.findall(r"`([a-z-]+\.toml)`", DOCUMENT.read_text()))


def test_everything_may_be_set(tmp_path: Path) -> None:
    """The file is right with every comment taken away but those of keys that exclude each other."""
    text = re.sub(
        r"^# (?!remote|url_file|token|path|name = \"orders)([a-z_]+ = )", r"\1", everything(), flags=re.MULTILINE
    )
    path = tmp_path / "everything.toml"
    path.write_text(text)
    reading = read_config(path, {})
    assert reading.problems == ()
    given = {str(place[-1]) for place in reading.origins}
    assert {key.name for section in sections() for key in section.keys} - given == {
        "remote",
        "url_file",
        "path",
        "token",
        "token_file",
    }


@pytest.mark.parametrize("block", re.findall(r"```toml\n(.*?)```", DOCUMENT.read_text(), re.DOTALL))
def test_the_examples_in_the_text_are_right(tmp_path: Path, block: str) -> None:
    """Examples in the text are as valid as the files."""
    path = tmp_path / "example.toml"
    path.write_text(block)
    assert read_config(path, {}).problems == ()
