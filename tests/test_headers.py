"""What headers and docstrings promise is held by the tests: each *Keeps* is named, each name is one thing.

A test names a *Keeps* in its docstring, or in that of its file: `Keeps 2 of protocol/transition`. Where a header has
one sentence without a number it is `Keeps of services/rollback/job`.
"""

import ast
import inspect
import re
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

from tests.words import NO_NAME

TESTS = Path(__file__).parent
PROJECT = TESTS.parent
CODE = PROJECT / "service" / "lakeward"

HELD_ROOMS = ("protocol/", "merge/", "services/", "state/", "daemon/scheduling/scheduler")

KEEPS = re.compile(r"^Keeps:(.*?)(?=^\S|^\s*$|\Z)", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"^\s*(\d+)\. ", re.MULTILINE)
MENTION = re.compile(r"Keeps (?:(\d+(?:(?:, | and |, and )\d+)*) )?of ([a-z_]+(?:/[a-z_0-9]+)+)")

MODULE = re.compile(r"`([a-z_]+(?:/[a-z_0-9]+)+)(?:\.py|\.([A-Za-z_]+)[^`]*)?`")

PUBLIC_CLASS = re.compile(r"^class ([A-Za-z]\w*)", re.MULTILINE)
BEGINNING_WITHOUT_A_SUBJECT = re.compile(r"(Of|Those|As|By|Where|And|Nor)\b")
NOT_A_NAME = re.compile(rf"\b({NO_NAME}|nobody)\b", re.IGNORECASE)

MAY_LACK_ONE = re.compile(rf"\"\"\"\s*{BEGINNING_WITHOUT_A_SUBJECT.pattern}|{NOT_A_NAME.pattern}", re.IGNORECASE)
"""Parsing each file takes ten seconds."""


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def docstrings(path: Path) -> tuple[str, ...]:
    """Returns those of modules, classes and functions, and those below an attribute or a constant."""
    found = []
    for node in ast.walk(parsed(path)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                found.append(inspect.cleandoc(text))
    return tuple(found)


@cache
def promised() -> frozenset[str]:
    promises: set[str] = set()
    for path in CODE.rglob("*.py"):
        module, text = path.relative_to(CODE).with_suffix("").as_posix(), path.read_text()
        if not module.startswith(HELD_ROOMS) or "Keeps:" not in text:
            continue
        keeps = KEEPS.search(ast.get_docstring(ast.parse(text)) or "")
        if keeps is None:
            continue
        numbers = NUMBER.findall(keeps[1])
        promises |= {f"Keeps {number} of {module}" for number in numbers} or {f"Keeps of {module}"}
    return frozenset(promises)


def named() -> set[str]:
    mentions = set()
    for path in TESTS.rglob("test_*.py"):
        for text in docstrings(path) if path != Path(__file__) and "Keeps" in path.read_text() else ():
            for numbers, module in MENTION.findall(" ".join(text.split())):
                mentions |= {f"Keeps {number} of {module}" for number in re.findall(r"\d+", numbers)} or {
                    f"Keeps of {module}"
                }
    return mentions


def test_each_keeps_is_named_by_a_test():
    """A promise in a header that no test names is no promise, and a test names only promises that there are."""
    promises, mentions = promised(), named()

    assert len(promises) > 100, "headers are not read as they are written"
    assert sorted(promises - mentions) == [], "no test names these"
    held_mentions = {mention for mention in mentions if mention.partition(" of ")[2].startswith(HELD_ROOMS)}
    assert sorted(held_mentions - promises) == [], "tests name these, and no header has them"


def test_no_two_public_classes_share_a_name():
    """A name that a reader finds is the one there is."""
    places = defaultdict(list)
    for path in sorted(CODE.rglob("*.py")):
        for name in PUBLIC_CLASS.findall(path.read_text()):
            places[name].append(path.relative_to(CODE).as_posix())

    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_docstrings_have_a_subject():
    """A docstring does not begin in the middle of a sentence, and names the process, writer or attempt that acts."""
    found = [
        f"{path.relative_to(PROJECT)}: {text.splitlines()[0]}"
        for folder in (CODE, TESTS, PROJECT / "deploy", PROJECT / "benchmarks")
        for path in sorted(folder.rglob("*.py"))
        if MAY_LACK_ONE.search(path.read_text())
        for text in docstrings(path)
        if BEGINNING_WITHOUT_A_SUBJECT.match(text) or NOT_A_NAME.search(text)
    ]

    assert found == []


def test_texts_name_who_acts():
    """Comments, errors, pages and documents name the process, writer or attempt that acts, as docstrings do."""
    documents = [*PROJECT.glob("*.md"), *(PROJECT / "docs").rglob("*.md"), *CODE.rglob("*.html"), *CODE.rglob("*.py")]
    found = [
        f"{path.relative_to(PROJECT)}:{number}: {line.strip()}"
        for path in sorted(documents)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if NOT_A_NAME.search(line)
    ]

    assert found == []


def test_modules_that_are_named_exist():
    """A reader finds each module, and what is named of it, where documents, headers and comments say that it is."""
    texts = {path: path.read_text() for path in CODE.rglob("*.py")}
    modules = {path.relative_to(CODE).with_suffix("").as_posix(): text for path, text in texts.items()}
    folders = {path.parent.relative_to(CODE).as_posix() for path in texts}
    named = {
        (path.relative_to(PROJECT).as_posix(), module, name)
        for path in [*texts, *PROJECT.glob("*.md"), *(PROJECT / "docs").rglob("*.md"), *TESTS.rglob("*.py")]
        for module, name in MODULE.findall(path.read_text())
        if module.partition("/")[0] in folders and module not in folders
    }

    assert len(named) > 100, "modules are not named as they are looked for"
    missing = [each for each in named if not re.search(rf"\b{each[2]}\b", modules.get(each[1], ""))]
    assert sorted(missing) == []


OF_EACH_SERVICE = frozenset({"__init__", "job", "metrics", "settings", "verbs"})
TERMS = ("fencing", "listing", "logging")


def test_file_names_are_nouns_and_name_one_thing():
    """A name stands at most twice in the house, but those that each service has; things are called by nouns."""
    names = Counter(path.stem for path in CODE.rglob("*.py"))

    assert {name: n for name, n in names.items() if n > 2 and name not in OF_EACH_SERVICE} == {}
    assert [name for name in names if name.endswith("ing") and not name.endswith(TERMS)] == []


OUR_NAME = re.compile(r"`([a-z]+(?:_[a-z0-9]+)+)(?:\(\))?`")
HEADER = re.compile(r'\s*r?"""(.*?)"""', re.DOTALL)
FOREIGN = frozenset({"encryption_algorithm"})  # a field of Parquet's footer


def test_names_in_headers_are_of_the_code():
    """A name in a header is a module, a class, a function, an argument, a variable or a text of the code."""
    texts = {path: path.read_text() for path in sorted(CODE.rglob("*.py"))}
    modules = {path.stem for path in texts}
    headers = {path: HEADER.match(text) for path, text in texts.items()}
    named = {name for header in headers.values() if header for name in OUR_NAME.findall(header[0])} - FOREIGN - modules

    assert len(named) > 50, "names are not read"
    # Parsing all takes ten seconds.
    assert [
        name for name in sorted(named) if not any(name in names_of(path) for path in texts if name in texts[path])
    ] == []


@cache
def names_of(path: Path) -> frozenset[str]:
    """What the module calls something, uses, or has as a text."""
    names = set()
    for node in ast.walk(parsed(path)):
        match node:
            case ast.FunctionDef(name=name) | ast.arg(arg=name) | ast.Name(id=name) | ast.Attribute(attr=name):
                names.add(name)
            case ast.Constant(value=str(name)):
                names.add(name)
    return frozenset(names)


VERSIONS = frozenset({6, 8, 9, 10})
MAY_BE_ONE = re.compile(r"\b(?:6|8|9|10)\b")
OTHER_NUMBERS = {
    "engine/dispatch/spark_master.py": "(6, 8)",  # parts of Spark's own address
    "format/parquet/page_header.py": "(9, 9)",  # types of Thrift's compact protocol
}


def numbers_of_versions(tree: ast.AST) -> list[str]:
    """What compares a version with a number, gives one a number, or lists several."""

    def has_number(*nodes: ast.AST | None) -> bool:
        parts = [part for node in nodes if node is not None for part in ast.walk(node)]
        return any(isinstance(part, ast.Constant) and part.value in VERSIONS for part in parts)

    def is_version(*nodes: ast.AST) -> bool:
        return any("version" in ast.unparse(node).lower() for node in nodes)

    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=left, comparators=sides) if is_version(left, *sides) and has_number(left, *sides):
                found.append(ast.unparse(node))
            case ast.Call(func=ast.Name(id="TableVersion"), args=args) if has_number(*args):
                found.append(ast.unparse(node))
            case ast.AnnAssign(target=target, value=value) if is_version(target) and has_number(value):
                found.append(ast.unparse(node))
            case ast.Assign(targets=targets, value=value) if is_version(*targets) and has_number(value):
                found.append(ast.unparse(node))
            case ast.keyword(arg=str(name), value=value) if name.endswith("version") and has_number(value):
                found.append(ast.unparse(node))
            case ast.Tuple(elts=each) | ast.Set(elts=each) | ast.List(elts=each) if len(each) > 1:
                if all(isinstance(one, ast.Constant) and one.value in VERSIONS for one in each):
                    found.append(ast.unparse(node))
    return found


def test_only_one_module_knows_the_numbers_of_table_versions():
    """The other modules ask `table/table_version.py` for an ability by its name."""
    for wrong in ("config.version.number == 8", "version: int = 9", "make(version=9)", "TableVersion(6)", "{8, 9}"):
        assert numbers_of_versions(ast.parse(wrong)), wrong
    found = {
        (path, text)
        for file in CODE.rglob("*.py")
        if (path := file.relative_to(CODE).as_posix()) != "table/table_version.py"
        if MAY_BE_ONE.search(file.read_text())
        for text in numbers_of_versions(parsed(file))
        if OTHER_NUMBERS.get(path) != text
    }
    assert sorted(found) == []
