"""The kinds of table that the interop suite runs through, as text: one line, one table.

The seven of `NARROW`, which CI runs, hold every value of every column; with `PAIRS`, thirty tables, they hold every
pair of values that can be (tests say so). `make interop` runs those. `make interop-full SEED=s COUNT=n` draws as many
others as one has time for (`drawn`), some of them with values that these do not have (`BY_CHANCE`, odd names, file
times that are gone). MEMORY is Hudi's in-memory index, the one Spark index whose inserts go to logs, as Flink's do:
its groups have no base file until they are compacted.

Hudi 1.2.0 writes and judges all of them, those of version 6 and 8 too; what the oldest releases that read these say is
in `test_versions.py` and `test_version_8.py`. Where changes are captured, FULL's logs of changes are held against
those of Hudi's own compaction; LOG, hybrid plans and what queries make of changes are in `test_changes.py`.

What cannot be is in `NEVER`, each with its reason: most of it since Hudi 1.2.0 itself goes wrong there. Every
combination of the partitions of the metadata table, partitioned record index and secondary index among them, is the
matter of `test_metadata_matrix.py`.

    python -m tests.interop.cases SEED

writes `PAIRS` again, where a column or a value is added: to `Case` and `VALUES`, in `Story` what its writers do, and in
`tests/hudi/model.py` what must come of it.
"""

from __future__ import annotations

import itertools
import os
import random
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import ClassVar

FILES_ALONE = {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "false"}
STATS = {"hoodie.metadata.enable": "true"}
"""What Hudi's Spark writers do by default: statistics of columns, and of partitions where there are some."""
BLOOMS = {"hoodie.metadata.index.bloom.filter.enable": "true"}
RECORD_INDEX = {
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.global.record.level.index.min.filegroup.count": "2",
    "hoodie.metadata.global.record.level.index.max.filegroup.count": "2",
}

METADATA: Mapping[str, Mapping[str, str]] = {
    "off": {},
    "files": FILES_ALONE,
    "stats": STATS,
    "blooms": STATS | BLOOMS,
    "rli": FILES_ALONE | RECORD_INDEX,
    "all": STATS | BLOOMS | RECORD_INDEX,
}
"""The writers' options, by what there is beside the listing of files."""

CHANGES: Mapping[str, str] = {"no": "", "keys": "OP_KEY_ONLY", "before": "DATA_BEFORE", "both": "DATA_BEFORE_AFTER"}
"""Change data capture, by its supplemental logging mode."""


@dataclass(frozen=True, slots=True)
class Case:
    index: str
    layout: str
    """flat, hive (part=v), encoded (values with blanks, slashes and accents, URL-encoded), or nested (partitions one
    below another)."""
    history: str
    """fresh, compacted (Hudi compacted it before), or pending (Hudi left a compaction plan that has not run)."""
    ordering: str
    """commit, event, or several: event time by two fields, of which the second often decides."""
    log_format: str
    keys: str
    columns: str
    first: str
    deletes: str
    """hard only; or soft too (`_hoodie_is_deleted`); or marked, by a column and a value of the table's own choice."""
    evolves: str
    """added: a column is added halfway; mixed: others get wider types or are dropped as well."""
    ordering_type: str
    metadata: str = "off"
    """off, or which partitions the metadata table has (`METADATA`)."""
    merging: str = "whole"
    """whole rows, or filled: partial updates, where nulls are no values."""
    version: str = "9"
    """The table's; 1.2.0 writes and judges each here, what older releases say of them their own suites."""
    changes: str = "no"
    """no, or what is captured of them (`CHANGES`)."""
    names: str = "plain"
    """plain; or odd: letters and digits of several scripts, and names that differ in case alone on different levels.
    Tables by chance alone have it."""
    times: str = "kept"
    """kept; or what happened to the times of the table's files before Lakeward compacts it: now, as by `cp -r`, or
    equal, as by a tool that gives all files one day, and then the properties have no head either: nothing shows the
    time zone of its writers. Tables by chance alone have it."""

    FREE: ClassVar[tuple[str, ...]] = ("ordering_type", "metadata")
    """Columns that need not meet every value of the others; of `metadata`, off and on do."""

    @property
    def has_metadata(self) -> bool:
        return self.metadata != "off"

    @property
    def captures_changes(self) -> bool:
        return self.changes != "no"

    @property
    def is_listed_whole(self) -> bool:
        """Whether all partitions are found by listing: Hudi finds none below another one so."""
        return self.layout != "nested"

    @property
    def is_readable(self) -> bool:
        """Whether Hudi's readers, and so its compactions, know such logs."""
        return self.log_format != "hfile"

    def __str__(self) -> str:
        """Its name, which its rows are drawn by: those of a table that captures no changes are what they were before
        there was such a column, and so are those with plain names and with file times."""
        left_out = {
            "changes": not self.captures_changes,
            "names": self.names == "plain",
            "times": self.times == "kept",
        }
        names = [column.name for column in fields(self) if not left_out.get(column.name)]
        return "-".join(getattr(self, name) for name in names)


VALUES: Mapping[str, tuple[str, ...]] = {
    "index": ("SIMPLE", "BLOOM", "BUCKET", "MEMORY"),
    "layout": ("flat", "hive", "encoded"),
    "history": ("fresh", "compacted", "pending"),
    "ordering": ("commit", "event", "several"),
    "log_format": ("avro", "parquet", "hfile"),
    "keys": ("single", "composite"),
    "columns": ("few", "all"),
    "first": ("insert", "bulk_insert"),
    "deletes": ("hard", "soft", "marked"),
    "evolves": ("no", "added", "mixed"),
    "ordering_type": (
        *("bigint", "int", "float", "double", "decimal(10,2)", "string", "date", "timestamp", "timestamp_ntz"),
    ),
    "metadata": tuple(METADATA),
    "merging": ("whole", "filled"),
    "version": ("9", "8", "6"),
    "changes": tuple(CHANGES),
}

BY_CHANCE: Mapping[str, tuple[str, ...]] = {"layout": ("nested",)}
"""Values that tables by chance may have besides; CI judges each of them in a test of its own."""

_BY_VALUE = {"event", "several"}
_BY_COLUMN = {"soft", "marked"}
_BEFORE_9 = {"8", "6"}
_CAPTURED = {*CHANGES} - {"no"}
NEVER: Mapping[str, Mapping[str, set[str]]] = {
    "Hudi forgets a key even when the delete comes too late, and the key lies in two groups": {
        "index": {"MEMORY"},
        "deletes": _BY_COLUMN,
        "ordering": _BY_VALUE,
    },
    "Hudi's in-memory index forgets a deleted key, so that an older row after it no longer meets the base row": {
        "index": {"MEMORY"},
        "history": {"compacted"},
        "ordering": _BY_VALUE,
    },
    "Hudi's in-memory index does not learn the keys of a bulk insert, and later writes double them": {
        "index": {"MEMORY"},
        "first": {"bulk_insert"},
    },
    "Hudi's record index forgets a key even when the delete comes too late": {
        "metadata": {"rli", "all"},
        "deletes": _BY_COLUMN,
        "ordering": _BY_VALUE,
    },
    "Hudi cannot write or read its deletes with a date": {
        "ordering_type": {"date"},
        "deletes": _BY_COLUMN,
        "ordering": _BY_VALUE,
    },
    "Hudi compares each row of a Parquet block by the text of the last one": {
        "ordering_type": {"string"},
        "log_format": {"parquet"},
        "ordering": _BY_VALUE,
    },
    "Hudi refuses to write a record index where inserts go to logs": {
        "metadata": {"rli", "all"},
        "index": {"BUCKET", "MEMORY"},
    },
    "Hudi does not promote values of such blocks as it does others, so they are refused": {
        "log_format": {"hfile"},
        "evolves": {"mixed"},
    },
    "Hudi's compaction cannot read such logs": {"log_format": {"hfile"}, "history": {"compacted"}},
    "Hudi before 1.1 takes the names of two fields for one": {"version": _BEFORE_9, "ordering": {"several"}},
    "before version 9 they are Java classes, which are refused": {"version": _BEFORE_9, "merging": {"filled"}},
    "before version 9 the mark is a matter of a Java class, too": {"version": _BEFORE_9, "deletes": {"marked"}},
    "in version 6 tables with a metadata table are refused": {"version": {"6"}, "metadata": {*METADATA} - {"off"}},
    "in version 6 Hudi 0.15 deletes whatever the values are, so such deletes are refused": {
        "version": {"6"},
        "deletes": {"soft"},
        "ordering": _BY_VALUE,
    },
    "Hudi 1.0 compares no texts of deletes, so on version 8 such deletes are refused": {
        "version": {"8"},
        "ordering_type": {"string"},
        "deletes": {"soft"},
        "ordering": _BY_VALUE,
    },
    "before version 9 Hudi captures changes in other code, so it is refused": {
        "version": _BEFORE_9,
        "changes": _CAPTURED,
    },
    "which rows are changed where they are filled from others is not known, so it is refused": {
        "merging": {"filled"},
        "changes": _CAPTURED,
    },
    "only the metadata table's list shows partitions below others": {"layout": {"nested"}, "metadata": {"off"}},
    "no payload class that ignores nulls has a mark": {"merging": {"filled"}, "deletes": {"marked"}},
}
"""Values that no table has together, by the reason."""


def can_be(chosen: Mapping[str, str]) -> bool:
    """Whether some table can have these values, of all columns or of some."""
    return not any(all(chosen.get(name) in values for name, values in rule.items()) for rule in NEVER.values())


def _values(case: Case) -> dict[str, str]:
    return {name: getattr(case, name) for name in VALUES}


def draw(chance: random.Random, **given: str) -> Case:
    """A table by chance, with the values that are given."""
    return _draw(chance, VALUES, given)


def _draw(chance: random.Random, of: Mapping[str, tuple[str, ...]], given: Mapping[str, str]) -> Case:
    while True:
        chosen = {name: chance.choice(values) for name, values in of.items()} | given
        if can_be(chosen):
            return Case(**chosen)


Pair = tuple[tuple[str, str], tuple[str, str]]


def pairs_of(case: Case) -> set[Pair]:
    """Each two values that meet in it; all metadata tables are one."""
    met = {name: value for name, value in _values(case).items() if name not in Case.FREE}
    met["metadata"] = "on" if case.has_metadata else "off"
    return set(itertools.combinations(sorted(met.items()), 2))


def all_pairs() -> set[Pair]:
    """Each two values that can meet."""
    named = {name: values for name, values in VALUES.items() if name not in Case.FREE} | {"metadata": ("off", "on")}
    return {
        ((one, value), (other, with_value))
        for one, other in itertools.combinations(sorted(named), 2)
        for value, with_value in itertools.product(named[one], named[other])
        if _can_meet({one: value, other: with_value})
    }


def _can_meet(pair: Mapping[str, str]) -> bool:
    if pair.get("metadata") != "on":
        return can_be(pair)
    return any(can_be({**pair, "metadata": name}) for name in METADATA if name != "off")


def complete(cases: Iterable[Case], seed: int, count: int) -> list[Case]:
    """So many more tables, by which every pair is met: of many by chance the one with the most new pairs, each time."""
    chance = random.Random(seed)
    missing = all_pairs().difference(*map(pairs_of, cases))
    added: list[Case] = []
    while len(added) < count:
        wanted = dict(chance.choice(sorted(missing))) if missing else {}
        wanted.pop("metadata", None)
        drawn = [draw(chance, **wanted) for _ in range(200)]
        added.append(max(drawn, key=lambda case: len(missing & pairs_of(case))))
        missing -= pairs_of(added[-1])
    assert not missing, f"{len(missing)} pairs are left"
    return added


def _cases(text: str) -> tuple[Case, ...]:
    return tuple(Case(*line.split()) for line in text.strip().splitlines())


NARROW = _cases("""
    SIMPLE hive    compacted commit  parquet composite all insert      hard   no    bigint        rli    filled 9 no
    SIMPLE encoded pending   several avro    single    few insert      hard   added timestamp     stats  whole  9 both
    BLOOM  flat    compacted event   avro    single    few insert      soft   added string        blooms whole  9 keys
    BLOOM  encoded fresh     commit  avro    composite all bulk_insert hard   no    bigint        all    whole  8 no
    BUCKET hive    fresh     event   avro    single    few insert      marked no    bigint        files  whole  9 before
    BUCKET encoded compacted commit  parquet composite few bulk_insert soft   mixed bigint        off    whole  6 no
    MEMORY hive    pending   commit  hfile   composite all insert      soft   added bigint        off    whole  9 no
""")

PAIRS = _cases("""
    SIMPLE flat    pending   event   hfile   single    few bulk_insert hard   no    float         off    whole  6 no
    BLOOM  flat    pending   several parquet composite all insert      marked mixed decimal(10,2) stats  whole  9 both
    BUCKET flat    fresh     several avro    single    few bulk_insert hard   mixed bigint        off    filled 9 no
    MEMORY flat    compacted commit  parquet single    all insert      marked no    float         files  whole  9 both
    SIMPLE hive    fresh     event   parquet composite few bulk_insert soft   mixed double        blooms whole  8 no
    SIMPLE encoded fresh     several hfile   single    all bulk_insert marked added double        off    whole  9 before
    BUCKET flat    pending   event   hfile   composite all bulk_insert soft   no    int           stats  whole  9 keys
    MEMORY encoded fresh     event   hfile   composite few insert      hard   added date          off    filled 9 no
    BLOOM  flat    pending   commit  hfile   single    all insert      soft   added string        off    whole  8 no
    BUCKET hive    compacted several parquet composite few bulk_insert soft   added decimal(10,2) blooms whole  9 before
    MEMORY hive    compacted commit  avro    composite few insert      hard   mixed decimal(10,2) blooms whole  8 no
    SIMPLE hive    fresh     several parquet composite few insert      hard   mixed bigint        off    whole  9 keys
    BUCKET hive    pending   several hfile   single    all bulk_insert soft   no    timestamp     off    whole  9 both
    BLOOM  hive    fresh     event   avro    single    all insert      hard   added date          off    whole  6 no
    BLOOM  flat    pending   commit  parquet single    all bulk_insert hard   mixed string        off    whole  9 before
    BLOOM  encoded pending   event   parquet composite all bulk_insert soft   no    timestamp_ntz off    filled 9 no
    MEMORY encoded compacted commit  avro    composite few insert      marked mixed float         off    whole  9 keys
    MEMORY encoded compacted commit  avro    composite all insert      hard   mixed bigint        off    whole  6 no
    SIMPLE hive    fresh     event   parquet single    all bulk_insert soft   mixed decimal(10,2) stats  whole  9 both
    BUCKET hive    fresh     event   parquet composite few insert      hard   added double        stats  whole  8 no
    BUCKET flat    fresh     several parquet single    all insert      marked added bigint        blooms whole  9 no
    MEMORY flat    fresh     several avro    single    all insert      hard   mixed timestamp     off    whole  9 before
    SIMPLE hive    pending   commit  parquet composite few bulk_insert hard   mixed double        stats  whole  9 before
""")


def drawn(asked: str) -> dict[str, Case]:
    """The tables of `SEED:COUNT` by chance, by the names under which those that passed are remembered."""
    seed, _, count = asked.partition(":")
    cases = {f"{seed}-{number}": _by_chance(random.Random(f"{seed} {number}")) for number in range(int(count or 0))}
    return {name: case for name, case in cases.items() if not (PASSED / name).exists()}


def _by_chance(chance: random.Random) -> Case:
    shapes = {name: (*values, *BY_CHANCE.get(name, ())) for name, values in VALUES.items()}
    case = _draw(chance, shapes, {})
    return replace(case, names=chance.choice(("plain", "odd")), times=chance.choice(("kept", "now", "equal")))


PASSED = Path(".interop-full")
"""A file for each table of `make interop-full` that passed, so that a run that was stopped goes on."""
DRAWN = drawn(os.environ.get("LAKEWARD_INTEROP_FULL", ""))


def main(seed: int) -> None:
    for case in complete(NARROW, seed, 30 - len(NARROW)):
        print("    " + "  ".join(getattr(case, name) for name in VALUES))


if __name__ == "__main__":
    main(int(sys.argv[1]))
