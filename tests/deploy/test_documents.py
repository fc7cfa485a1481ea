"""What the documents point at exists."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.main import get_command

from lakeward.cli.verbs import app
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


def prose_of(page: Path) -> Iterator[str]:
    """Yields the lines of a page that are neither code nor rows of a table."""
    is_code = False
    for line in page.read_text().splitlines():
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code and not line.startswith("|"):
            yield line


REFERENCES = ("reference", "decisions", "formats")
"""Folders under docs/ whose pages are looked things up in, or history."""
ARCHITECTURE_BYTES = 12 * 1024
"""It is read in one sitting."""


@pytest.mark.parametrize("page", sorted((PROJECT / "docs").rglob("*.md")), ids=lambda page: page.name)
def test_pages_are_short(page: Path) -> None:
    """A page has at most 15 KiB, or is a reference; a line has at most 120 characters, but for tables and code."""
    name = page.relative_to(PROJECT / "docs")
    if name.parts[0] not in REFERENCES:
        assert page.stat().st_size <= (ARCHITECTURE_BYTES if name.name == "architecture.md" else 15 * 1024)
    if name.parts[0] != "decisions":
        assert [line for line in prose_of(page) if len(line) > 120] == []


def test_each_page_is_listed() -> None:
    """A reader finds every page from docs/README.md, from the list of runbooks or that of decisions."""
    docs = PROJECT / "docs"
    lists = [docs / "README.md", docs / "runbooks" / "README.md", docs / "decisions" / "README.md"]
    linked = {
        (page.parent / target.partition("#")[0]).resolve()
        for page in lists
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text())
        if "://" not in target
    }
    pages = {page for page in docs.rglob("*.md") if page.name != "README.md"}
    assert sorted(str(page.relative_to(docs)) for page in pages - linked) == []


def test_gaps_in_the_numbers_of_decisions_are_named() -> None:
    """A number without a page is explained where decisions are listed."""
    folder = PROJECT / "docs" / "decisions"
    explained = (folder / "README.md").read_text().partition("**Gaps.**")[2].partition("never had a page")[0]
    gaps = {int(number) for number in re.findall(r"\b\d+\b", explained)}
    pages = {int(page.name[:4]) for page in folder.glob("0*.md")}
    assert gaps == set(range(1, max(gaps) + 1)) - pages
    assert max(gaps) == 102, "later ones were given out to several people at once"


def test_modules_that_pages_about_the_code_name_exist() -> None:
    """A module that moved, or went, moves in the architecture and in the reading orders, too."""
    code = PROJECT / "service" / "lakeward"
    rooms = "|".join(sorted(path.name for path in code.iterdir() if path.is_dir() and not path.name.startswith("_")))
    named = set()
    for page in (PROJECT / "docs" / "inside").glob("*.md"):
        text = page.read_text()
        named |= set(re.findall(rf"`((?:{rooms})/[a-z_/]*[a-z_])", text))
        for block in re.findall(r"^```\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            named |= set(re.findall(rf"(?<![\w./-])((?:{rooms})/[a-z_/]*[a-z_])", block))
    assert [name for name in sorted(named) if not (code / name).is_dir() and not (code / f"{name}.py").is_file()] == []
    assert len(named) > 100


def test_a_release_in_the_changelog_is_short() -> None:
    """What an operator looks up is on a page: a release has forty lines, also after a merge."""
    releases = re.split(r"^## (?=\d)", (PROJECT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)[1:]
    assert [release.partition("\n")[0] for release in releases if release.count("\n") > 40] == []


def test_nothing_is_said_twice() -> None:
    """A paragraph that was pasted twice, as a merge leaves it. Tables have lines that are alike, and so has code."""
    for page in (PROJECT / "README.md", PROJECT / "CHANGELOG.md"):
        lines = Counter(line for line in page.read_text().splitlines() if len(line) > 60 and not line.startswith("|"))
        assert [line for line, count in lines.items() if count > 1] == [], page.name


def test_the_readme_promises_nothing_that_is_there() -> None:
    """Indexes of Lakeward's own are."""
    assert "come next" not in (PROJECT / "README.md").read_text()


TEXTS = [page for page in PAGES if page.parent.name != "benchmarks"]  # whose contestants have names like verbs
TEXTS += [*(PROJECT / "service").rglob("*.py"), *(PROJECT / "service").rglob("*.html")]
TEXTS += [path for path in (PROJECT / "deploy").rglob("*") if path.suffix in (".yml", ".yaml", ".json", ".toml")]
OLD_NAMES = {"metadata rebuild", "orphans list", "orphans set-aside"}
"""Said where the new one is said beside it."""


def test_verbs_that_texts_name_exist() -> None:
    """A verb that is renamed is renamed in every page, error and alert."""
    root = get_command(app)
    missing = {
        (str(path.relative_to(PROJECT)), words)
        for path in TEXTS
        for words in verbs_named(path.read_text())
        if not is_verb(root, words.split())
    }
    assert {words for _, words in missing if words not in OLD_NAMES} == set(), missing
    assert {path for path, words in missing if words in OLD_NAMES} == {
        "docs/decisions/0094-what-only-removes-is-called-drop.md",
        "docs/decisions/0118-files-that-were-set-aside.md",
        "docs/operate/upgrade.md",
    }


def verbs_named(text: str) -> Iterator[str]:
    yield from re.findall(r"`lakeward ([a-z][a-z-]*(?: [a-z][a-z-]*)?)", text)


def is_verb(command: object, words: list[str]) -> bool:
    commands = getattr(command, "commands", None)
    if not commands or not words:
        return True
    found = commands.get(words[0])
    return found is not None and not found.hidden and is_verb(found, words[1:])


def test_tests_that_are_named_exist() -> None:
    """Tests that hold the words of RFC-08 are there; a name without a file is in the file that was named before it."""
    page = PROJECT / "docs" / "decisions" / "0164-what-holds-the-words-of-rfc-08.md"
    named = re.findall(r"`(?:(tests/[a-z_0-9/]+\.py)::)?(test_[a-z_0-9]+)`", page.read_text())
    missing, file = [], ""
    for path, name in named:
        file = path or file
        if not (PROJECT / file).is_file() or f"\ndef {name}(" not in (PROJECT / file).read_text():
            missing.append(f"{file}::{name}")
    assert len(named) > 40 and missing == []
