"""The lint of words finds a phrase where it is prose, and no plain English."""

import pytest

from tests import words


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The page tells it anew.", ["tells", "anew"]),
        ("# it is not gone\n# by", ["gone by"]),
        ("Of one that is behind the list says less.", ["Of one"]),
        ("of each clean the files", ["of each clean the files"]),
        (
            "What stands in its place; the stated is kept, found by an index",
            ["What stands", "the stated", "found by an index"],
        ),
        ("the stated rules; what the standing-by server made; docs/0021-what-properties-tell.md", []),
        ("Columns that tell two rows apart; hours of work; income to date; by itself", []),
    ],
)
def test_phrases_are_found_and_plain_english_is_not(text, found):
    """A phrase is found over the end of a line too; to tell two things apart is plain English."""
    assert [" ".join(place.replace("#", "").split()) for _, place, _ in words.places(text)] == found


def test_words_in_names_are_found(tmp_path):
    """A name has a word where it is a whole part of it; `tell` is what files have, and no such word."""
    path = tmp_path / "module.py"
    path.write_text("is_told = ours.tell()\nclass StatedLocks: ...\nhours = understanding = restated = file.tell()\n")

    assert [(line, name) for line, name, _ in words.names(path)] == [(1, "is_told"), (1, "ours"), (2, "StatedLocks")]


def test_names_are_not_prose(tmp_path):
    """In Python code phrases are looked for in strings and comments; a string that a line continues is one text."""
    path = tmp_path / "module.py"
    path.write_text('told = ours  # told\nraise Error(\n    "tried in "\n    f"vain"\n)\n')

    assert [line for line, _, _ in words.places(words.prose(path))] == [1, 3]


def test_a_number_that_rises_is_refused(tmp_path, monkeypatch, capsys):
    """The lint fails when a folder has more than its number, names both, and does not write a larger one."""
    allowed = tmp_path / "words.toml"
    allowed.write_text("docs = 0\n")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "page.md").write_text("It is told.\n")
    monkeypatch.setattr(words, "PROJECT", tmp_path)
    monkeypatch.setattr(words, "ALLOWED", allowed)
    monkeypatch.setattr(words, "project_files", lambda: ["docs/page.md"])

    assert words.main(["--lower"]) == 1
    assert "docs has 1, tests/words.toml allows 0: reword what you added" in capsys.readouterr().out
    assert allowed.read_text() == "docs = 0\n"

    (tmp_path / "docs" / "page.md").write_text("It is reported.\n")
    assert words.main([]) == 0
