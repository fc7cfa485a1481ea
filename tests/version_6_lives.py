"""Tables of version 6 as Hudi 0.15.0 left them after each step (tests/golden/v6_lives), with indexes of Lakeward that
stay from step to step."""

from __future__ import annotations

import io
import json
import shutil
import struct
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import fastavro

from lakeward.format.log.block import MAGIC, BlockType, HeaderKey
from lakeward.index.out_of_use import FOLDER
from tests.golden_tables import GOLDEN

LIVES = GOLDEN / "v6_lives"
KEYS = [f"k{number}" for number in range(50)]


class RecordedLife:
    def __init__(self, name: str, folder: Path) -> None:
        self.base = folder / "table"
        self.steps: list[dict[str, object]] = json.loads((LIVES / f"{name}.json").read_text())
        self._states = folder / "states"
        with tarfile.open(LIVES / f"{name}.tar.xz") as archive:
            archive.extractall(self._states, filter="data")

    def state(self, number: int) -> dict[str, str]:
        """The table is as it was behind that step. Returns the partition path of each key, by Hudi's query."""
        put_state(self._states / f"{number:02}", self.base)
        places = self.steps[number]["places"]
        assert isinstance(places, dict)
        return places

    def lived(self, first: int = 0) -> Iterator[tuple[str, dict[str, str]]]:
        """One step after the other: what was done, and the partition path of each key."""
        for number in range(first, len(self.steps)):
            yield f"step {number}: {self.steps[number]['what']}", self.state(number)

    def find(self, what: str) -> int:
        """The step of which this is told."""
        return next(number for number, step in enumerate(self.steps) if what in str(step["what"]))


def put_state(state: Path, base: Path) -> None:
    """The files of the table are those of the state; what Lakeward keeps below it stays."""
    base.mkdir(exist_ok=True)
    for path in [*base.iterdir(), *(base / ".hoodie").glob("*")]:
        if path.name in (".hoodie", FOLDER.partition("/")[0]):
            continue
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.copytree(state, base, dirs_exist_ok=True)


_ENTRY = {
    "type": "record",
    "name": "HoodieArchivedMetaEntry",
    "fields": [{"name": name, "type": ["null", "string"]} for name in ("commitTime", "actionType", "actionState")],
}


def archive(base: Path, writes: Sequence[Path], *, number: int) -> None:
    """Archive these completed writes into a file of its own, without what they say."""
    folder = base / ".hoodie" / "archived"
    folder.mkdir(exist_ok=True)
    block = archive_block((*path.name.split("."), "COMPLETED") for path in writes)
    (folder / f".commits_.archive.{number}_1-0-1").write_bytes(block)
    for path in writes:
        for each in path.parent.glob(f"{path.name}*"):
            each.unlink()


def archive_block(entries: Iterable[Sequence[str]]) -> bytes:
    """A log block of such entries: time, action and state of each."""
    records = []
    for time, action, state in entries:
        out = io.BytesIO()
        entry = {"commitTime": time, "actionType": action, "actionState": state}
        fastavro.schemaless_writer(out, _ENTRY, entry)
        records.append(struct.pack(">i", len(out.getvalue())) + out.getvalue())
    schema = json.dumps(_ENTRY).encode()
    content = struct.pack(">ii", 3, len(records)) + b"".join(records)
    head = struct.pack(">iii", 1, BlockType.AVRO_DATA, 1) + struct.pack(">ii", HeaderKey.SCHEMA, len(schema)) + schema
    body = head + struct.pack(">q", len(content)) + content + struct.pack(">i", 0)
    return MAGIC + struct.pack(">q", len(body) + 8) + body + struct.pack(">q", len(body) + 8 + len(MAGIC))
