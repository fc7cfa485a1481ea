"""Bad input of every kind, as an operator meets it: the right error in bounded time, and nothing published.

Each case is a small table that is sound but for one thing. What is refused only while rows are merged leaves the plan
that was made before; nothing else on the table may differ.
"""

from __future__ import annotations

import io
import json
import os
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest

from lakeward.cli.main import run
from lakeward.format.log.block import BlockType, HeaderKey
from tests.format.parquet.test_footer import ClearKeys
from tests.golden_tables import copy_golden
from tests.our_reader import read_rows
from tests.read.log_files import block
from tests.scenarios.damaged_table import (
    BASE_FILE,
    COMMIT,
    COMPLETED,
    FILE_ID,
    HEADERS,
    INSTANT,
    LOG,
    PLAN,
    SCHEMA,
    avro_content,
    commit_json,
    data_block,
    digest,
    encoded,
    put_commit,
    put_log,
    row,
)

SECONDS_MAX = 20
"""A case takes one; what hangs or walks through billions of something does not end in time on any machine."""
COMPACT = ("--engine", "local", "--writers", "stopped", "--type", "full", "--timezone", "UTC", "--json")

Damage = Callable[[Path], object]

GOOD = data_block(encoded(row("k1")))
PLAN_NAME = PLAN.rpartition("/")[2]
COMMIT_NAME = COMMIT.rpartition("/")[2]


@dataclass(frozen=True)
class Case:
    name: str
    damage: Damage
    code: str
    says: str
    """Part of the error: what is wrong, not only that something is."""
    file: str = LOG
    """What the error names."""
    pending: bool = False
    """Begin with the golden table that has a pending plan of Hudi's."""


def log(content: bytes) -> Damage:
    return lambda base: put_log(base, content)


def patched(at: int, data: bytes, block: bytes = GOOD) -> Damage:
    return log(block[:at] + data + block[at + len(data) :])


def int32(value: int) -> bytes:
    return struct.pack(">i", value)


def headed(headers: dict[HeaderKey, str]) -> Damage:
    """A block with these headers beside the usual ones."""
    return log(block(BlockType.AVRO_DATA, HEADERS | headers, avro_content(encoded(row("k1")))))


def nested(levels: int) -> str:
    kind = '{"type":"array","items":' * levels + '"long"' + "}" * levels
    return f'{{"type":"record","name":"r","fields":[{{"name":"x","type":{kind}}}]}}'


def doubled(levels: int) -> str:
    """A record that holds the one before it twice, by name the second time: 2 to the levels types in two kilobytes."""
    kind: object = "long"
    for level in range(levels):
        again = f"R{level - 1}" if level else "long"
        fields = [{"name": "a", "type": kind}, {"name": "b", "type": again}]
        kind = {"type": "record", "name": f"R{level}", "fields": fields}
    return json.dumps(kind)


BLOCKS = [
    Case("no magic", patched(0, b"#HUDI?"), "LW-DAMAGED", "does not start with the magic"),
    Case("a newer format", patched(14, int32(7)), "LW-DAMAGED", "log format version 7"),
    Case("an unknown type", patched(18, int32(99)), "LW-DAMAGED", "block type 99"),
    Case("a negative type", patched(18, int32(-1)), "LW-DAMAGED", "block type -1"),
    Case("HFile data that is none", patched(18, int32(4)), "LW-BROKEN-FILE", "HFile"),
    Case("two billion headers", patched(22, int32(2**31 - 1)), "LW-DAMAGED", "claims 2147483647 headers"),
    Case("minus one header", patched(22, int32(-1)), "LW-DAMAGED", "claims -1 headers"),
    Case("an unknown header", patched(26, int32(77)), "LW-DAMAGED", "header key 77"),
    Case("a header of two gigabytes", patched(30, int32(2**31 - 1)), "LW-DAMAGED", "header value lies outside"),
    Case("a header of minus five bytes", patched(30, int32(-5)), "LW-DAMAGED", "header value lies outside"),
    Case("a header that is no text", patched(34, b"\xff\xfe"), "LW-DAMAGED", "not UTF-8"),
    Case("a footer with entries", patched(len(GOOD) - 12, int32(5)), "LW-DAMAGED", "footer claims 5 entries"),
    Case(
        "content shorter than its block",
        lambda base: put_log(base, shorter_content(GOOD)),
        "LW-DAMAGED",
        "does not end where its footer begins",
    ),
    Case("no instant", log(block(BlockType.AVRO_DATA, {HeaderKey.SCHEMA: "{}"})), "LW-DAMAGED", "INSTANT_TIME"),
    Case("no schema", log(block(BlockType.AVRO_DATA, {HeaderKey.INSTANT_TIME: INSTANT})), "LW-DAMAGED", "SCHEMA"),
    Case("a schema that is no JSON", headed({HeaderKey.SCHEMA: "{"}), "LW-DAMAGED", "not JSON"),
    Case("a schema without end", headed({HeaderKey.SCHEMA: nested(100_000)}), "LW-DAMAGED", "not JSON"),
    Case("a schema nested deeply", headed({HeaderKey.SCHEMA: nested(500)}), "LW-UNSUPPORTED", "nested deeper"),
    Case("a schema of millions of types", headed({HeaderKey.SCHEMA: doubled(24)}), "LW-UNSUPPORTED", "20000 types"),
    Case(
        "a recursive schema",
        headed({HeaderKey.SCHEMA: '{"type":"record","name":"r","fields":[{"name":"x","type":["null","r"]}]}'}),
        "LW-UNSUPPORTED",
        "has the type 'r'",
    ),
]


CONTENT_AT = len(GOOD) - 12 - len(avro_content(encoded(row("k1"))))
FIELDS = {
    "magic": 3,
    "size": 10,
    "format version": 16,
    "block type": 20,
    "header count": 24,
    "header key": 28,
    "header length": 32,
    "header text": 60,
    "content length": CONTENT_AT - 3,
    "content": CONTENT_AT + 20,
    "footer": len(GOOD) - 10,
    "reverse pointer": len(GOOD) - 4,
}
"""The byte of a block at which a field is cut in half."""

TORN = [
    *(Case(f"cut in its {field}", log(GOOD[:at]), "LW-DAMAGED", "is damaged") for field, at in FIELDS.items()),
    *(
        Case(f"cut behind a sound block, in its {field}", log(GOOD + GOOD[:at]), "LW-DAMAGED", "is damaged")
        for field, at in list(FIELDS.items())[::4]
    ),
    Case("a block of minus one byte", patched(6, struct.pack(">q", -1)), "LW-DAMAGED", "is damaged"),
    Case("a block of 8 EiB", patched(6, struct.pack(">q", 2**63 - 1)), "LW-DAMAGED", "is damaged"),
    Case("another reverse pointer", patched(len(GOOD) - 8, bytes(8)), "LW-DAMAGED", "is damaged"),
]


def shorter_content(whole: bytes) -> bytes:
    """The block with a content length that is less by one: what is left over belongs to nothing."""
    content = avro_content(encoded(row("k1")))
    at = whole.index(struct.pack(">q", len(content)) + content[:8])
    return whole[:at] + struct.pack(">q", len(content) - 1) + whole[at + 8 :]


def avro(content: bytes, headers: dict[HeaderKey, str] | None = None) -> Damage:
    return log(block(BlockType.AVRO_DATA, HEADERS | (headers or {}), content))


def deletes(avro_bytes: bytes, *, version: int = 3, length: int | None = None) -> Damage:
    head = struct.pack(">ii", version, len(avro_bytes) if length is None else length)
    return log(block(BlockType.DELETE, {HeaderKey.INSTANT_TIME: INSTANT}, head + avro_bytes))


ONE = encoded(row("k1"))
LISTS: dict[str, Any] = {
    **SCHEMA,
    "fields": [*SCHEMA["fields"], {"name": "l", "type": {"type": "array", "items": "boolean"}}],
}
TRILLION = b"\x80\x80\x80\x80\x80\x80\x20"
"""2 to the 40th, as Avro writes it."""

RECORDS = [
    Case("two billion records", avro(avro_content(ONE, count=2**31 - 1)), "LW-BROKEN-FILE", "after 1 of 2147483647"),
    Case("minus three records", avro(avro_content(ONE, count=-3)), "LW-BROKEN-FILE", "claims -3 records"),
    Case("a data block of version 9", avro(avro_content(ONE, version=9)), "LW-UNSUPPORTED", "data block version 9"),
    Case("no content", avro(b""), "LW-BROKEN-FILE", "shorter than its head"),
    Case("a record cut short", avro(avro_content(ONE[:-3])), "LW-BROKEN-FILE", "ecord 0 is not of its schema"),
    Case("a record and more", avro(avro_content(ONE + b"\0")), "LW-BROKEN-FILE", "left over"),
    Case("a branch that is none", avro(avro_content(b"\x0a" + ONE[1:])), "LW-BROKEN-FILE", "union branch"),
    Case("a text of a terabyte", avro(avro_content(b"\x02" + TRILLION)), "LW-BROKEN-FILE", "lies outside"),
    Case(
        "a million million elements",
        avro(avro_content(ONE + TRILLION + b"\x01"), {HeaderKey.SCHEMA: json.dumps(LISTS)}),
        "LW-BROKEN-FILE",
        "lies outside",
    ),
    Case("no key", log(data_block(encoded(row(None)))), "LW-BROKEN-FILE", "has no record key"),
    Case(
        "a key that is no text",
        log(data_block(encoded(row("QQQQ")).replace(b"QQQQ", b"\xff\xfe\xfd\xfc"))),
        "LW-BROKEN-FILE",
        "Invalid UTF8",
    ),
    Case(
        "a key of half a character",
        log(data_block(encoded(row("QQQ")).replace(b"QQQ", b"\xed\xa0\x80"))),
        "LW-BROKEN-FILE",
        "Invalid UTF8",
    ),
    Case("no ordering value", log(data_block(encoded(row("k1", None)))), "LW-UNSUPPORTED", "value of ts"),
    Case(
        "a log of another partition",
        log(data_block(encoded(row("k1") | {"_hoodie_partition_path": "q"}))),
        "LW-BROKEN-FILE",
        "partition 'q'",
    ),
    Case("deletes of Hudi 0.13 that are cut", deletes(b"", version=1), "LW-BROKEN-FILE", "in the middle of a value"),
    Case("deletes of a Hudi to come", deletes(b"", version=4), "LW-DAMAGED", "version 4"),
    Case("deletes of two gigabytes", deletes(b"\0", length=2**31 - 1), "LW-BROKEN-FILE", "claims 2147483647 bytes"),
    Case("a million million deletes", deletes(TRILLION + b"\0"), "LW-BROKEN-FILE", "cut short"),
    Case("a delete without key", deletes(b"\x02\x00\x00\x00\x00"), "LW-BROKEN-FILE", "no key"),
]


def parquet(*rows: dict[str, Any], **options: Any) -> bytes:
    columns = pa.schema([(f["name"], pa.int64() if f["name"] == "ts" else pa.string()) for f in SCHEMA["fields"]])
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, columns, **options) as writer:
        writer.write_table(pa.Table.from_pylist(list(rows), schema=columns))
    return sink.getvalue()


def encrypted() -> bytes:
    config = pe.EncryptionConfiguration(footer_key="f", column_keys={"k": ["name"]}, plaintext_footer=True)
    keys = pe.CryptoFactory(ClearKeys).file_encryption_properties(pe.KmsConnectionConfig(), config)
    return parquet(row("k1"), encryption_properties=keys)


def parquet_log(content: bytes) -> Damage:
    return log(block(BlockType.PARQUET_DATA, HEADERS, content))


def base_file(edit: Callable[[bytes], bytes]) -> Damage:
    def damage(base: Path) -> None:
        put_log(base, GOOD)
        data = (base / BASE_FILE).read_bytes()
        edited = edit(data)
        (base / BASE_FILE).write_bytes(edited)

    return damage


ROWS = parquet(row("k1"), row("k9"))
UNREADABLE = "cannot be read"

PARQUET = [
    Case("a block of no bytes", parquet_log(b""), "LW-BROKEN-FILE", "has 0 bytes"),
    Case("a block of four bytes", parquet_log(b"PAR1"), "LW-BROKEN-FILE", "has 4 bytes"),
    Case("a garbled footer", parquet_log(ROWS[:-60] + b"\xff" * 50 + ROWS[-10:]), "LW-BROKEN-FILE", UNREADABLE),
    Case("a footer of 4 GB", parquet_log(ROWS[:-8] + b"\xff" * 4 + b"PAR1"), "LW-BROKEN-FILE", "4294967295 bytes"),
    Case("a footer before the file", parquet_log(ROWS[:-8] + b"\xff\xff\0\0PAR1"), "LW-BROKEN-FILE", "shorter than"),
    Case("garbled page headers", parquet_log(ROWS[:4] + b"\xff" * 8 + ROWS[12:]), "LW-BROKEN-FILE", UNREADABLE),
    Case("encrypted columns", parquet_log(encrypted()), "LW-UNSUPPORTED", "encrypted"),
    Case("rows without key", parquet_log(parquet(row(None))), "LW-BROKEN-FILE", "has no record key"),
    Case("a base file of four bytes", base_file(lambda _: b"PAR1"), "LW-", "", BASE_FILE),
    Case("an encrypted base file", base_file(lambda data: data[:-4] + b"PARE"), "LW-REFUSED", "encrypted", BASE_FILE),
    Case(
        "a base file with a garbled footer",
        base_file(lambda data: data[:-200] + bytes(150) + data[-50:]),
        "LW-BROKEN-FILE",
        UNREADABLE,
        BASE_FILE,
    ),
    Case(
        "a base file with garbled pages",
        base_file(lambda data: data[:4] + b"\xff" * 400 + data[404:]),
        "LW-BROKEN-FILE",
        UNREADABLE,
        BASE_FILE,
    ),
]


def plan(edit: Callable[[bytes], bytes]) -> Damage:
    def damage(base: Path) -> None:
        (base / PLAN).write_bytes(edit((base / PLAN).read_bytes()))

    return damage


def operation(**fields: Any) -> Damage:
    """The pending plan with an operation that says this."""

    def edit(data: bytes) -> bytes:
        reader = fastavro.reader(io.BytesIO(data))
        (record,) = reader
        record["operations"][0].update(fields)
        sink = io.BytesIO()
        fastavro.writer(sink, reader.writer_schema, [record])
        return sink.getvalue()

    return plan(edit)


def twice(data: bytes) -> bytes:
    reader = fastavro.reader(io.BytesIO(data))
    (record,) = reader
    record["operations"] *= 2
    sink = io.BytesIO()
    fastavro.writer(sink, reader.writer_schema, [record])
    return sink.getvalue()


LOGS = [f".{FILE_ID}_{name}" for name in ("20261121043706178.log.1_0-15-11", "20261121043708181.log.1_0-30-22")]


def pending(name: str, damage: Damage, code: str, says: str, file: str = PLAN_NAME) -> Case:
    return Case(name, damage, code, says, file, pending=True)


PLANS = [
    pending("a garbled plan", plan(lambda data: data[:500] + b"\xff" * 100 + data[600:]), "LW-REFUSED", "not the Avro"),
    pending("a plan cut short", plan(lambda data: data[:-20]), "LW-REFUSED", "cut short"),
    pending("a plan in JSON", plan(lambda _: b'{"operations": []}'), "LW-REFUSED", "magic"),
    pending("a plan of no bytes", plan(lambda _: b""), "LW-REFUSED", "empty"),
    pending("a partition above the table", operation(partitionPath="../other"), "LW-REFUSED", "not trusted"),
    pending("a partition elsewhere", operation(partitionPath="/etc"), "LW-REFUSED", "not trusted"),
    pending("a partition in the metadata", operation(partitionPath=".hoodie/timeline"), "LW-REFUSED", "own metadata"),
    pending("a base file elsewhere", operation(dataFilePath="../x_0-0-0_1.parquet"), "LW-REFUSED", "not trusted"),
    pending("a log elsewhere", operation(deltaFilePaths=["../.x_1.log.1_0-0-0"]), "LW-REFUSED", "not trusted"),
    pending("another group's files", operation(fileId="other"), "LW-REFUSED", "not the name of a base file"),
    pending("a log twice", operation(deltaFilePaths=[LOGS[0], *LOGS]), "LW-REFUSED", "names each log once"),
    pending("a group twice", plan(twice), "LW-REFUSED", "one operation for each file group"),
    pending(
        "a planned log that is missing",
        operation(deltaFilePaths=[*LOGS, f".{FILE_ID}_20261121043709999.log.1_0-49-34"]),
        "LW-CONFLICT",
        "does not fit file group",
        FILE_ID,
    ),
    pending(
        "a planned base file that is missing",
        operation(dataFilePath=f"{FILE_ID}_0-0-0_20261121043700000.parquet"),
        "LW-CONFLICT",
        "does not fit file group",
        FILE_ID,
    ),
]


def commit(content: bytes) -> Damage:
    def damage(base: Path) -> None:
        put_log(base, GOOD)
        put_commit(base, content)

    return damage


def completed_twice(base: Path) -> None:
    put_log(base, GOOD)
    again = base / COMMIT.replace(COMPLETED, "20261121043713000")
    again.write_bytes((base / COMMIT).read_bytes())


def timeline(name: str, damage: Damage, says: str) -> Case:
    return Case(name, damage, "LW-REFUSED", says, INSTANT)


DEEP = nested(100_000)
TIMELINE = [
    timeline("a garbled commit", commit(b"Obj\x01" + b"\xff" * 300), "not the Avro"),
    timeline("a commit cut short", commit(b'{"partitionToWriteStats": {'), "neither Avro nor complete JSON"),
    timeline("a commit without end", commit(b'{"a":' * 200_000), "neither Avro nor complete JSON"),
    timeline("a commit nested deeply", commit(b"[" * 5_000 + b"]" * 5_000), "neither Avro nor complete JSON"),
    timeline("a commit that is a list", commit(b"[]"), "instead of a record"),
    timeline("a commit that is no text", commit(b'{"extraMetadata":{"schema":"\xff"}}'), "neither Avro nor complete"),
    timeline("a commit of no bytes", commit(b""), "empty"),
    timeline("a file above the table", commit(commit_json(path="../../x")), "not trusted"),
    timeline("a file in the metadata", commit(commit_json(path=".hoodie/hoodie.properties")), "own metadata"),
    timeline("a partition above the table", commit(commit_json(partition="../q")), "not trusted"),
    timeline("a group elsewhere", commit(commit_json(file_id="a/b")), "no file id"),
    timeline("an instant completed twice", completed_twice, "completed already"),
    Case("a schema without end", commit(commit_json(schema=DEEP)), "LW-", "", ""),
    Case("a schema that is a list", commit(commit_json(schema="[]")), "LW-", "", ""),
]

CASES = [*BLOCKS, *TORN, *RECORDS, *PARQUET, *PLANS, *TIMELINE]


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One store for all tables: to make one takes longer than a case."""
    return tmp_path_factory.mktemp("state")


@pytest.fixture(autouse=True)
def _state(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(state))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_bad_input_is_refused_and_changes_nothing(
    case: Case, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """`inspect` reads on; `compact` names what is wrong, and no file of the table differs. It fails and says what to
    do, or, where a look at the heads shows it, leaves the one file group alone and says why."""
    base = copy_golden("v9", tmp_path / "table", pending=case.pending)
    case.damage(base)
    before = digest(base)
    started = time.monotonic()

    assert run(["inspect", str(base), "--json"]) == 0
    capfd.readouterr()
    exit_code = run(["compact", str(base), *COMPACT])

    out, shown = capfd.readouterr()
    if exit_code == 0:
        assert json.loads(out)["compactions"] == []
        shown = next(line for line in shown.splitlines() if line.startswith("excluded: "))
    else:
        error = json.loads(shown.splitlines()[-1])["error"]
        assert error["code"].startswith(case.code)
        assert error["remedy"], "an operator reads what to do"
        shown = f"{error['what']} {error['why']}"
    assert case.says in shown and case.file in shown
    assert time.monotonic() - started < SECONDS_MAX
    after = digest(base)
    own = {name for name in after.keys() - before.keys() if name.endswith(".compaction.requested")}
    assert len(own) <= 1 and after == before | {name: after[name] for name in own}


@pytest.mark.parametrize("damage", [patched(18, int32(99)), log(GOOD[:-4])], ids=["unknown-type", "torn"])
@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["compact", *COMPACT], 1),
        (["service", "--writers", "stopped", "--timezone", "UTC", "--json"], 1),
        (["verify", "--timezone", "UTC"], 6),
    ],
    ids=["compact", "service", "verify"],
)
def test_a_group_whose_logs_cannot_be_read_is_damage(
    command: list[str], code: int, damage: Damage, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A block of an unknown type ends the commands with the exit code that a torn block ends them with."""
    base = copy_golden("v9", tmp_path / "table")
    damage(base)

    assert run([command[0], str(base), *command[1:]]) == code

    out, shown = capfd.readouterr()
    if code == 1:
        error = json.loads(shown.splitlines()[-1])["error"]
        assert error["code"] == "LW-DAMAGED" and LOG in error["what"]
        done = json.loads(out)
        (left,) = done["damage"] if "damage" in done else done["compaction"]["damage"]
        assert left["path"].endswith(LOG)
    else:
        assert LOG in out


@pytest.mark.parametrize(
    "keys",
    [[""], ["k" * 1_000_000], ["a\0b", "a", "a\0"], ["😀", "\uffff", "\ue000"], ["../../x", "a\nb", "k1\x1b[2J"]],
    ids=["empty", "a-megabyte", "NUL", "beyond-16-bits", "paths-and-controls"],
)
def test_keys_of_every_kind_are_data(keys: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A key is text and nothing else: what is read before is read afterwards, in the same order."""
    base = put_log(copy_golden("v9", tmp_path / "table"), data_block(*(encoded(row(key)) for key in keys)))
    before = read_rows(base)
    assert set(keys) <= {one["_hoodie_record_key"] for one in before}

    assert run(["compact", str(base), *COMPACT]) == 0, capfd.readouterr().err

    assert read_rows(base) == before


def test_a_clock_that_was_wrong_is_no_damage(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A commit that completed before it was requested was written beside a clock that was set back: it counts."""
    base = put_log(copy_golden("v9", tmp_path / "table"), GOOD)
    os.rename(base / COMMIT, base / COMMIT.replace(COMPLETED, "20261121043710500"))
    before = read_rows(base)

    assert run(["compact", str(base), *COMPACT]) == 0, capfd.readouterr().err

    assert read_rows(base) == before


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"hoodie.table.version=" + b"9" * 10_000, "hoodie.table.version"),
        (bytes(range(256)) * 40, "cannot be read"),
        (b"hoodie.table.name=t\nx=\\uZZZZ\n", "cannot be read"),
    ],
    ids=["a-number-without-end", "bytes", "an-escape-that-is-none"],
)
def test_garbled_properties_are_no_table_of_lakeward(
    text: bytes, says: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is guessed about a table whose properties cannot be read."""
    monkeypatch.setattr("lakeward.table.table_config._ROUND_SECONDS", 0.0)
    base = copy_golden("v9", tmp_path / "table")
    properties = base / ".hoodie/hoodie.properties"
    properties.write_bytes(text if b"version" not in text else properties.read_bytes() + text)
    before = digest(base)

    assert run(["compact", str(base), *COMPACT]) in (1, 2)

    assert says in capfd.readouterr().err
    assert digest(base) == before


def test_the_sound_table_is_compacted(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Without the damage each of these tables is serviced, or the cases would prove nothing."""
    base = put_log(copy_golden("v9", tmp_path / "table"), data_block(encoded(row("k9"))))
    assert run(["compact", str(base), *COMPACT]) == 0, capfd.readouterr().err
    assert [one["name"] for one in read_rows(base) if one["_hoodie_record_key"] == "k9"] == ["n"]
    again = copy_golden("v9", tmp_path / "again")
    put_log(again, block(BlockType.PARQUET_DATA, HEADERS, ROWS))
    assert run(["compact", str(again), *COMPACT]) == 0, capfd.readouterr().err
