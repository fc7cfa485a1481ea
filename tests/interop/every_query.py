"""All four kinds of query on a table as it is, each to every instant and of every window that it still has: those of
`lakeward.Table` against those of released Hudi, and of hudi-rs where it can read.

A moment or a window whose rows are not all there any more Hudi reads in part, or takes newer rows for; Lakeward refuses
it (docs/decisions/0123). So an answer that Lakeward gives must be Hudi's, and a refusal must be one that a clean or
the archiver brought about: the moments that are refused are the oldest ones, and without these there are none.

Hudi 1.2.0 contradicts itself in one place: of a window that goes over a compaction to a row behind it, the row is not
merged with that of the base file if no row of its row group is of the window, and in tables with nested columns if the
older row is not. Then a late row comes, and an update that leaves values out lacks them. From Lakeward the late row
does not come, and the values do (docs/read/moments.md).
"""

from __future__ import annotations

import itertools
from ast import literal_eval
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame

from lakeward import Table
from lakeward.api.table import Rows
from lakeward.base.errors import Refused
from tests.hudi.table import FILE_NAME_COLUMN, HudiTable

BEFORE_ALL = "000"
BEGIN, END = "hoodie.datasource.read.begin.instanttime", "hoodie.datasource.read.end.instanttime"
QUERY = "hoodie.datasource.query.type"
_KEY, _COMMIT = "_hoodie_record_key", "_hoodie_commit_time"
_NUMBER = "_number_of_the_query"
_NO_COLUMN = "no such column"
_DIFFERENCES = 20
"""So many are shown."""
BY_LISTING = {"hoodie.metadata.enable": "false"}
BY_METADATA = {"hoodie.metadata.enable": "true"}


@dataclass(slots=True)
class Judged:
    """How many queries were compared, and which Lakeward refused."""

    answered: int = 0
    by_hudi_rs: int = 0
    refused: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.answered} queries as Hudi, {self.by_hudi_rs} as hudi-rs, {len(self.refused)} refused"


@dataclass(frozen=True, slots=True)
class _Question:
    what: str
    of_lakeward: Callable[[], Rows]
    options: dict[str, str]
    """Hudi is asked with them."""
    asks_hudi_rs: Callable[[Any], Any] | None = None
    may_be_late: bool = False
    """Hudi's answer may have rows that lost against older ones."""
    without: str = ""
    """A column that is not compared."""
    may_lack_values: bool = False
    """Hudi's rows may lack values that an older row has."""


def judge_every_query(
    table: HudiTable,
    *,
    by_metadata: bool = True,
    by_hudi_rs: bool = True,
    encoded: str = "",
    fills: bool = False,
    is_listed_whole: bool = True,
) -> Judged:
    """Raises `AssertionError` for the first query whose rows differ.

    Hudi answers in one job of Spark all that Lakeward has an answer to: a job for each took four fifths of the time. It
    opens the metadata table for the snapshot alone.

    Args:
        by_metadata: Hudi is asked for the snapshot by its metadata table, too.
        by_hudi_rs: hudi-rs is asked for moments, where it can read.
        encoded: a column that Hudi's windows give as the URL-encoded path has it, where it is not compared then
            (docs/read/moments.md).
        is_listed_whole: by listing Hudi finds all partitions; else it is asked by the metadata table alone.
        fills: updates of the table leave values out, which readers take from older rows.
    """
    opened = Table(str(table.path), timezone="UTC")
    judged = Judged()
    listing = BY_LISTING if is_listed_whole else BY_METADATA
    moments = [_moment(opened, instant, listing) for instant, _ in sorted(table.completed_instants())]
    of_moments = [*moments, *_now(opened, listing, by_metadata=by_metadata)]
    answers = _answers(judged, of_moments)
    given = [each.what in answers for each in moments]
    assert given == sorted(given), f"older moments are read than some that are refused: {judged.refused}"
    assert given[-1], "the newest moment is refused"
    if all(given):
        assert not judged.refused
    elif not _is_cleaned(table):
        raise AssertionError(f"nothing was cleaned or archived: {judged.refused}")
    # A window of commits that are archived is refused, though each moment that is left can be read.
    compactions = set(table.compactions())
    compacted = [completed for instant, completed in table.completed_instants() if instant in compactions]
    of_windows = [
        _window(opened, begin, end, listing, encoded, fills=fills and any(begin < each <= end for each in compacted))
        for begin, end in windows(table)
    ]
    answers |= _answers(judged, of_windows)
    answered = [each for each in (*of_moments, *of_windows) if each.what in answers]
    for question, expected in zip(answered, by_hudi(table, [each.options for each in answered]), strict=True):
        _compare(judged, question, answers[question.what], expected, opened)
        if by_hudi_rs and question.asks_hudi_rs is not None:
            _compare_with_hudi_rs(judged, question, answers[question.what], table)
    return judged


def windows(table: HudiTable) -> Iterator[tuple[str, str]]:
    """From each completion time to the next, from the beginning to the last, and from the first to the last."""
    ends = [BEFORE_ALL, *sorted(completed for _, completed in table.completed_instants())]
    yield from itertools.pairwise(ends)
    yield from {(BEFORE_ALL, ends[-1]), (ends[1], ends[-1])} - {*itertools.pairwise(ends)} - {(ends[-1], ends[-1])}


def by_hudi(table: HudiTable, queries: Sequence[Mapping[str, str]]) -> list[list[str]]:
    """The rows of each query, all of one schema in one job."""
    found: list[list[dict[str, Any]]] = [[] for _ in queries]
    frames = [table.frame(**options) for options in queries]
    of_schema: dict[str, list[int]] = {}
    for number, frame in enumerate(frames):
        of_schema.setdefault(frame.schema.json(), []).append(number)
    for numbers in of_schema.values():
        numbered = [frames[number].selectExpr("*", f"{number} AS {_NUMBER}") for number in numbers]
        for row in reduce(DataFrame.unionAll, numbered).collect():
            values = row.asDict(recursive=True)
            found[values.pop(_NUMBER)].append(values)
    return [_texts(rows) for rows in found]


def _now(opened: Table, listing: dict[str, str], *, by_metadata: bool) -> Iterator[_Question]:
    yield _Question("snapshot", lambda: opened.scan(meta_columns=True), listing)
    if by_metadata:
        yield _Question("snapshot by the metadata table", lambda: opened.scan(meta_columns=True), BY_METADATA)
    optimized = {QUERY: "read_optimized"}
    yield _Question("read-optimized", lambda: opened.scan(read_optimized=True, meta_columns=True), optimized)


def _moment(opened: Table, instant: str, listing: dict[str, str]) -> _Question:
    return _Question(
        f"as of {instant}",
        lambda: opened.scan(as_of=instant, meta_columns=True),
        {"as.of.instant": instant, **listing},
        lambda options: options.with_as_of_timestamp(instant),
    )


def _window(opened: Table, begin: str, end: str, listing: dict[str, str], encoded: str, *, fills: bool) -> _Question:
    return _Question(
        f"after {begin}, up to {end}",
        lambda: opened.scan(since="earliest" if begin == BEFORE_ALL else begin, until=end),
        {QUERY: "incremental", BEGIN: begin, END: end, **listing},
        may_be_late=True,
        without=encoded,
        may_lack_values=fills,
    )


def _answers(judged: Judged, questions: Iterable[_Question]) -> dict[str, list[str]]:
    """The rows that Lakeward gives, for each question that it does not refuse."""
    found = {}
    for question in questions:
        try:
            found[question.what] = as_text(question.of_lakeward())
        except Refused as refusal:
            judged.refused.append(f"{question.what}: {refusal.what}")
    return found


def _compare(judged: Judged, question: _Question, found: list[str], expected: list[str], opened: Table) -> None:
    if question.without:
        found, expected = _without(question.without, found), _without(question.without, expected)
    if found != expected and question.may_lack_values:
        found = _as_unfilled(found, expected)
    if found != expected and question.may_be_late:
        late = set(_lost(opened, [row for row in expected if row not in found]))
        expected = [row for row in expected if row not in late]
    assert found == expected, _differences(found, expected, question.what)
    judged.answered += 1


def _as_unfilled(found: list[str], expected: list[str]) -> list[str]:
    """Without the values that `expected` does not have in a row of the same commit."""
    named = {row[_KEY]: row for row in map(literal_eval, expected)}
    rows = []
    for row in map(literal_eval, found):
        other = named.get(row[_KEY], row)
        lacks = {name for name in row if other.get(name) == "None"} if other[_COMMIT] == row[_COMMIT] else set()
        rows.append({name: "None" if name in lacks else value for name, value in row.items()})
    return sorted(map(str, rows))


def _without(column: str, rows: list[str]) -> list[str]:
    named = (literal_eval(row) for row in rows)
    return sorted(str({name: value for name, value in row.items() if name != column}) for row in named)


def _lost(opened: Table, rows: list[str]) -> list[str]:
    """The rows that the table does not have, since they lost against older ones."""
    newest = opened.scan(columns=[_KEY, _COMMIT]).to_arrow().to_pylist()
    now = {row[_KEY]: row[_COMMIT] for row in newest}
    named = {row: literal_eval(row) for row in rows}
    return [text for text, row in named.items() if now.get(row[_KEY], row[_COMMIT]) < row[_COMMIT]]


def _compare_with_hudi_rs(judged: Judged, question: _Question, found: list[str], table: HudiTable) -> None:
    assert question.asks_hudi_rs is not None
    by_hudi_rs = read_by_hudi_rs(table, question.asks_hudi_rs)
    if by_hudi_rs is not None:
        assert found == by_hudi_rs, _differences(found, by_hudi_rs, f"{question.what}, hudi-rs")
        judged.by_hudi_rs += 1


def _differences(found: list[str], expected: list[str], what: str) -> str:
    more, less = (
        {row[_KEY]: row for row in map(literal_eval, sorted(set(some) - set(others)))}
        for some, others in ((found, expected), (expected, found))
    )
    lines = [f"only Lakeward: {row}" for key, row in more.items() if key not in less]
    lines += [f"only the judge: {row}" for key, row in less.items() if key not in more]
    for key in sorted(more.keys() & less.keys()):
        own, judges = more[key], less[key]
        names = [name for name in sorted(own | judges) if own.get(name) != judges.get(name)]
        lines += [f"{key}, {name}: {own.get(name, _NO_COLUMN)} | {judges.get(name, _NO_COLUMN)}" for name in names]
    return "\n".join([f"{what}: {len(found)} rows, and the judge has {len(expected)}", *lines[:_DIFFERENCES]])


def read_by_hudi_rs(table: HudiTable, asks: Callable[[Any], Any]) -> list[str] | None:
    """Its rows; None where it cannot read."""
    from hudi import HudiReadOptions, HudiTableBuilder

    try:
        batches = HudiTableBuilder.from_base_uri(str(table.path)).build().read(asks(HudiReadOptions()))
    except BaseException as error:  # where it is not finished, hudi-rs panics, which is no Exception
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        return None
    return _texts([row for batch in batches for row in batch.to_pylist()])


def as_text(rows: Rows | DataFrame, without: str = "") -> list[str]:
    """The rows, but for the name of the file that each is in."""
    if isinstance(rows, Rows):
        return _texts(rows.to_arrow().to_pylist(), without)
    return _texts([row.asDict(recursive=True) for row in rows.collect()], without)


def _texts(rows: list[dict[str, Any]], without: str = "") -> list[str]:
    left_out = {FILE_NAME_COLUMN, without}
    return sorted(str({name: like(row[name]) for name in sorted(row) if name not in left_out}) for row in rows)


def like(value: object) -> str:
    """The value as text: Spark has times without a zone, bytes that may change, and maps where Arrow has pairs."""
    match value:
        case dict():
            return str({like(key): like(each) for key, each in value.items()} or [])
        case [(_, _), *_] if isinstance(value[0], tuple):
            return like(dict(value))
        case list():
            return str([like(each) for each in value])
        case bytearray():
            return str(bytes(value))
    return str(value).removesuffix("+00:00")


def _is_cleaned(table: HudiTable) -> bool:
    """Whether there is what takes files or commits away."""
    hoodie = table.path / ".hoodie"
    timeline = hoodie / "timeline" if (hoodie / "timeline").is_dir() else hoodie
    archived = [file for folder in (timeline / "history", hoodie / "archived") for file in folder.glob("[!.]*")]
    return bool(archived) or any(file.suffix in (".clean", ".restore", ".rollback") for file in timeline.iterdir())
