"""What the documents point at exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.deploy.tools import PROJECT

PAGES = [*PROJECT.glob("*.md"), *(PROJECT / "docs").rglob("*.md"), *(PROJECT / "benchmarks").glob("*.md")]


def anchors_of(page: Path) -> set[str]:
    """The anchors that forges make of the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link names a file or folder of the project, and a heading of it where it says one."""
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), target
        if anchor:
            assert anchor in anchors_of(linked), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_commands_that_are_named_exist(page: Path) -> None:
    """`make target` and files under deploy/ that a page names are there."""
    text = page.read_text()
    targets = set(re.findall(r"^([a-z-]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z-]+)", text)) <= targets
    for path in re.findall(r"\bdeploy/[\w./-]*\w", text):
        assert (PROJECT / path).exists() or path.startswith("deploy/compose/secrets/"), path


def test_modules_that_the_architecture_names_exist() -> None:
    """A module that moved, or went, moves in the architecture, too."""
    code = PROJECT / "service" / "lakeward"
    rooms = "|".join(sorted(path.name for path in code.iterdir() if path.is_dir() and not path.name.startswith("_")))
    text = (PROJECT / "docs" / "ARCHITECTURE.md").read_text()
    named = set(re.findall(rf"`((?:{rooms})/[a-z_/]*[a-z_])", text))
    assert [name for name in sorted(named) if not (code / name).is_dir() and not (code / f"{name}.py").is_file()] == []
    assert len(named) > 40
