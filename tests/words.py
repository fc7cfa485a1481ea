"""Count the words of a private language in what people read, and fail when there are more than `words.toml` allows.

`make lint` runs it. It reads strings, docstrings and comments of Python files, and all of the pages, templates, alerts
and settings; decisions and the changelog are history and stay as they were written, and mutants are lines of code.
`words.toml` holds one number for each folder. A number only falls: `python -m tests.words --lower` writes what is left,
and never a larger number. `python -m tests.words PATH` prints each place below a path.
"""

import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).parent.parent
ALLOWED = Path(__file__).with_suffix(".toml")

TEXTS = {".md", ".html", ".toml", ".yml", ".yaml", ".sql", ".service"}
LEFT_OUT = ("docs/decisions/", "CHANGELOG.md", "tests/words", "tests/test_words.py", "tests/mutants.toml")

NO_NAME = "whoever|somebody"
"""What is said where the process, the writer or the attempt has a name; docstrings are held to it, too."""

PHRASES = {
    "told, tells: reports, says, describes": r"(?:told|tells?)(?! (?:[\w']+ ){0,6}apart)",
    "ours, theirs: Lakeward's, Hudi's": r"ours|theirs",
    "comes to: is, results in": r"(?:comes?|came|coming) to",
    "stands against, behind: prevents, is after": r"st(?:and|ands|anding|ood) (?:against|behind)",
    "anew: again": r"anew",
    "at pace: at the rate of, in time": r"at pace",
    "hold still: pause": r"h(?:old|olds|olding|eld) still",
    "asked for was: --option names": r"asked for was",
    "of X the Y: the Y of X": r"of (?:each|every|one|an?|both|all) (?:of (?:the )?)?\w+ the \w+",
    "Of one, By it (first in a sentence): the subject first": r"(?-i:Of|By) (?:one|those|each|it|them|what|which|whom)",
    "the word of: as reported by": r"the word of",
    "good-bye: release": r"good-?bye",
    "in vain: failed": r"in vain",
    "gone by, goes by: uses": r"g(?:o|oes|one|oing) by",
    "becomes of: happens to": r"bec(?:omes?|ame) of",
    "whoever, somebody: the process, the writer": NO_NAME,
    "what stands: what prevents it, what is there": r"what st(?:ands|ood)",
    "made, stated, standing as nouns: the new file, the given lock": (
        r"(?:the|an?|each|all|no) (?:made|stated|standing)(?: ones?)?(?=[.,;:)]| (?:is|are|was|were)\b)"
    ),
    "by an index, by buckets: using": (
        r"(?:finds?|found|writes?|wrote|written|looked? up|compares?|compared) by (?:an? index|buckets|bloom filters)"
    ),
    "as far as it was looked at: in what was checked": r"as far as (?:it|they) (?:was|were) looked at",
}
NAMES = re.compile(r"(?:^|_)(?:told|tells|ours|theirs|anew|stated|standing)(?=_|$)|^Stated(?=[A-Z])", re.IGNORECASE)
"""Parts of names of functions, fields, variables and modules."""
IN_NAMES = "told, ours, theirs, anew, stated, standing in a name: what it holds"

# A phrase may go over the end of a line: of a comment, or of a string that the next line continues.
GAP = r'(?:[\s#]|"\s*f?")+'
BEGINNINGS = "abcefghilnostw"
"""The first letters of the phrases. Where no word begins with one, none is looked for: else it takes ten seconds."""
FOUND = re.compile(
    rf"\b(?<!-)(?=[{BEGINNINGS}])(?:"
    + "|".join(rf"(?P<p{n}>(?:{phrase})(?![\w-]))".replace(" ", GAP) for n, phrase in enumerate(PHRASES.values()))
    + ")",
    re.IGNORECASE,
)


def places(text: str) -> Iterator[tuple[int, str, str]]:
    """Yields line, words and phrase for each place in a text."""
    for place in FOUND.finditer(text):
        yield text.count("\n", 0, place.start()) + 1, place[0], list(PHRASES)[int((place.lastgroup or "p0")[1:])]


def names(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yields line, name and phrase for each name in a Python file that has one of the words as a part."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py" and re.search(r"(?i)told|tells|ours|theirs|anew|stated|standing", text) is not None:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.NAME and NAMES.search(token.string):
                yield token.start[0], token.string, IN_NAMES


def prose(path: Path) -> str:
    """Returns a file's text; of Python its strings and comments alone, each on its line."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py" or FOUND.search(text) is None:  # Reading tokens is what takes time.
        return text
    lines = [""] * (text.count("\n") + 2)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.STRING, tokenize.COMMENT):
            # What stands between braces in an f-string is code.
            shown = re.sub(r"\{[^{}]*\}", "{}", token.string) if token.string.startswith("f") else token.string
            for line, part in enumerate(shown.split("\n"), token.start[0]):
                lines[line - 1] += part + " "
    return "\n".join(lines)


def project_files() -> list[str]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [
        name
        for name in names
        if Path(name).suffix in TEXTS | {".py"} and not name.startswith(LEFT_OUT) and (PROJECT / name).is_file()
    ]


def main(arguments: list[str]) -> int:
    lower = arguments == ["--lower"]
    shown = None if lower or not arguments else arguments[0]
    counts: Counter[str] = Counter()
    for name in project_files():
        for line, words, phrase in (*places(prose(PROJECT / name)), *names(PROJECT / name)):
            counts[name.split("/")[0] if "/" in name else "root"] += 1
            if shown is not None and name.startswith(shown):
                print(f"{name}:{line}: {' '.join(words.split())} ({phrase})")
    allowed = tomllib.loads(ALLOWED.read_text())
    risen = {place: count for place, count in counts.items() if count > allowed.get(place, 0)}
    print("words of a private language:", ", ".join(f"{place} {count}" for place, count in sorted(counts.items())))
    for place, count in sorted(risen.items()):
        print(
            f"{place} has {count}, tests/words.toml allows {allowed.get(place, 0)}: reword what you added "
            f"(python -m tests.words {'' if place == 'root' else place} lists them)"
        )
    if lower and not risen:
        ALLOWED.write_text(
            "# See words.py. A number only falls.\n" + "".join(f"{p} = {counts[p]}\n" for p in sorted(allowed))
        )
    return bool(risen)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
