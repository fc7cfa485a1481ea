"""Input that is damaged ends in an error that names the file or the row, or is written as what it says."""

from __future__ import annotations

import io
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.base.errors import LakewardError, UsageError
from lakeward.format.parquet.thrift_tree import STRUCT, Struct, read_struct, write_struct
from lakeward.storage.local import LocalStorage
from lakeward.write.flow.in_process import InProcessFlow
from lakeward.write.input.files import ParquetFiles, open_rows
from lakeward.write.request import WriteOperation, WriteRequest
from lakeward.write.whole_write import write_rows
from tests.processes import ScriptedProcesses
from tests.runs import runs
from tests.services.metadata.run.compacting_metadata import serviced_table
from tests.write.writing import COLUMNS, Row, new_table, rows_of, write

SEED: Final = int(os.environ.get("LAKEWARD_SEED", "0"))

ROWS: Final[list[Row]] = [(f"k{number}", number, "pq"[number % 2], f"Straße {number % 7}") for number in range(300)]


def parquet(chance: random.Random) -> bytes:
    """A file of several row groups, with and without dictionaries, statistics and compression."""
    content = io.BytesIO()
    pq.write_table(
        pa.Table.from_batches([rows_of(ROWS)]),
        content,
        row_group_size=120,
        use_dictionary=chance.random() < 0.5,
        compression=chance.choice(["none", "snappy", "gzip"]),
        data_page_version=chance.choice(["1.0", "2.0"]),
        store_schema=chance.random() < 0.5,
    )
    return content.getvalue()


def csv(_: random.Random) -> bytes:
    return b"id,ts,part,v\n" + b"".join(f"{a},{b},{c},{d}\n".encode() for a, b, c, d in ROWS)


def json_lines(_: random.Random) -> bytes:
    return b"".join(f'{{"id": "{a}", "ts": {b}, "part": "{c}", "v": "{d}"}}\n'.encode() for a, b, c, d in ROWS)


def damaged(content: bytes, chance: random.Random) -> bytes:
    """Bytes of other values, cut off, taken out or put in; in half of the cases near the end, where footers lie."""
    damage = bytearray(content)
    start = max(0, len(damage) - 1200) if chance.random() < 0.5 else 0
    at = chance.randrange(start, len(damage))
    kind = chance.randrange(5)
    if kind == 0:
        for _ in range(chance.choice([1, 2, 8])):
            damage[chance.randrange(start, len(damage))] = chance.randrange(256)
    elif kind == 1:
        del damage[at:]
    elif kind == 2:
        del damage[at : at + chance.randrange(1, 20)]
    elif kind == 3:
        damage[at:at] = chance.randbytes(chance.randrange(1, 20))
    else:
        # The length of the footer, or any other, of four bytes.
        at = chance.choice([at, len(damage) - 8])
        damage[at : at + 4] = chance.choice(
            [b"\0\0\0\0", b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", chance.randbytes(4)]
        )
    return bytes(damage)


@pytest.mark.parametrize(
    ("extension", "make", "count"), [("parquet", parquet, 30), ("csv", csv, 8), ("jsonl", json_lines, 8)]
)
def test_damaged_input_is_shown_or_written(
    extension: str, make: Callable[[random.Random], bytes], count: int, tmp_path: Path
) -> None:
    """Whatever bytes are in the file: after an error the table is as it was. Keeps 3 of write/input/files."""
    made = new_table(tmp_path / "made")
    write(made, [("k1", 0, "q", "before")])
    file = tmp_path / f"rows.{extension}"
    for number in range(runs(count)):
        seed = SEED + number
        chance = random.Random(seed)
        file.write_bytes(damaged(make(chance), chance))
        table = Path(shutil.copytree(made, tmp_path / "table"))
        try:
            try:
                _write_file(table, file)
            except LakewardError:
                assert _state(table) == _state(made)
        except BaseException:
            print(f"LAKEWARD_SEED={seed} ({extension})")
            raise
        shutil.rmtree(table)


def _write_file(table: Path, file: Path) -> None:
    source = open_rows([str(file)], table_columns=COLUMNS)
    if isinstance(source, ParquetFiles):
        source.parts(1)
    flow = InProcessFlow(LocalStorage(), source.batches())
    request = WriteRequest(WriteOperation.UPSERT)
    write_rows(serviced_table(str(table), LocalStorage(), ScriptedProcesses()), request, flow, source.schema)


def _state(table: Path) -> dict[str, bytes]:
    """The files that readers look at."""
    return {
        str(path.relative_to(table)): path.read_bytes()
        for path in table.rglob("*")
        if path.is_file() and ".hoodie/.lakeward" not in str(path) and ".hoodie/.temp" not in str(path)
    }


def of_histogram(footer: Struct) -> None:
    """One level more in the first column's histogram."""
    chunk = footer.get(4).values[0].get(1).values[0]
    chunk.get(3).get(16).get(3).values.append(7)


def of_repetition(footer: Struct) -> None:
    """The first column is neither required, optional nor repeated."""
    column = footer.get(2).values[1]
    column.fields[3] = (column.fields[3][0], 59)


def of_compression(footer: Struct) -> None:
    """A codec that there is not."""
    facts = footer.get(4).values[0].get(1).values[0].get(3)
    facts.fields[4] = (facts.fields[4][0], -38)


def of_columns(footer: Struct) -> None:
    """A row group without its last column."""
    footer.get(4).values[0].get(1).values.pop()


def of_encryption(footer: Struct) -> None:
    """The algorithm with which columns are encrypted."""
    footer.fields[8] = (STRUCT, Struct({1: (STRUCT, Struct({}))}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (of_histogram, "It is not a whole Parquet file: column 0 has a histogram of 3 levels, not 2. Name a file"),
        (of_repetition, "It is not a whole Parquet file: a column of its schema has the repetition 59, which there is"),
        (of_compression, "It is not a whole Parquet file: column 0 has the compression -38, which there is not. Name"),
        (of_columns, "It is not a whole Parquet file: a row group has 3 columns, and the schema 4. Name a file"),
        (of_encryption, "rows.parquet is encrypted. Lakeward has no keys"),
    ],
)
def test_footers_at_which_the_library_ends_the_process_are_refused(
    damage: Callable[[Struct], None], message: str, tmp_path: Path
) -> None:
    """pyarrow 26 raises nothing that could be caught there."""
    content = io.BytesIO()
    pq.write_table(pa.Table.from_batches([rows_of(ROWS)]), content)
    whole = content.getvalue()
    length = int.from_bytes(whole[-8:-4], "little")
    footer, _ = read_struct(whole[-8 - length : -8])
    damage(footer)
    data = write_struct(footer)
    file = tmp_path / "rows.parquet"
    file.write_bytes(whole[: -8 - length] + data + len(data).to_bytes(4, "little") + b"PAR1")
    with pytest.raises(UsageError, match=message):
        open_rows([str(file)])
