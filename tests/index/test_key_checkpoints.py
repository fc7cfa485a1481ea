"""Files of keys that a build goes on with: what was written comes back, or the file is broken."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakeward.base.errors import BrokenFile, NotFound
from lakeward.index import key_checkpoints
from lakeward.index.key_checkpoints import KeyCheckpoint, list_checkpoints, read_keys, slice_digest, write_keys
from lakeward.merge.rules.merge_rules import MergeMode, MergeRules
from lakeward.storage.local import LocalStorage
from lakeward.table.file_group import BaseFile, FileSlice

STORAGE = LocalStorage()
MADE = KeyCheckpoint("0" * 32, 3)


def content(*batches: list[str]) -> bytes:
    sink = io.BytesIO()
    write_keys(sink, (pa.array(batch, pa.string()) for batch in batches))
    return sink.getvalue()


def keys_of(folder: Path, data: bytes) -> list[str]:
    (folder / MADE.name).write_bytes(data)
    return [key for batch in read_keys(STORAGE, str(folder), MADE) for key in batch.to_pylist()]


@pytest.mark.parametrize("batches", [(), ([],), (["a"],), (["", "a", "é"], [], ["\U0001f600", "\U0001f600 "])])
def test_keys_come_back(batches: tuple[list[str], ...], tmp_path: Path) -> None:
    """Keys come as they were written, and a file is found by its name; one with another name is none."""
    assert keys_of(tmp_path, content(*batches)) == [key for batch in batches for key in batch]
    (tmp_path / f".{MADE.name}.5f3a").write_bytes(b"half")
    (tmp_path / "1.keys").mkdir()
    size = (tmp_path / MADE.name).stat().st_size
    assert list_checkpoints(STORAGE, str(tmp_path)) == {MADE.digest: replace(MADE, bytes=size)}
    assert list_checkpoints(STORAGE, str(tmp_path / "none")) == {}


def test_damage(tmp_path: Path) -> None:
    """Keeps 1 of index/key_checkpoints: whichever byte is another one, wherever the file is cut, whatever is behind
    it, and where a whole frame is missing or there twice, it is broken."""
    data = content(["a", "b"], ["c", "d"])
    for at in range(len(data)):
        with pytest.raises(BrokenFile, match="is broken"):
            keys_of(tmp_path, data[:at] + bytes([data[at] ^ 0x41]) + data[at + 1 :])
        with pytest.raises(BrokenFile, match="is broken"):
            keys_of(tmp_path, data[:at])
    first = content(["a", "b"])[8:-20]
    assert data.startswith(b"LWKEYS01" + first)
    for damaged in (data + b"\0", data.replace(first, b""), data.replace(first, first + first)):
        with pytest.raises(BrokenFile, match="is broken"):
            keys_of(tmp_path, damaged)
    with pytest.raises(NotFound):
        list(read_keys(STORAGE, str(tmp_path), KeyCheckpoint("1" * 32, 3)))


def test_other_slices_have_other_names() -> None:
    """Keeps 2 of index/key_checkpoints: another file, another size, another group or other rules of merging."""
    rules = MergeRules(MergeMode.COMMIT_TIME_ORDERING)
    base = BaseFile("f", "1", "f_0_1.parquet", "p", 100, "0")
    one = FileSlice("p", "f", "1", base, ())
    others = [
        (replace(one, base_file=replace(base, size=101)), rules, ()),
        (replace(one, base_file=replace(base, name="f_1_1.parquet")), rules, ()),
        (replace(one, partition_path="q"), rules, ()),
        (replace(one, file_id="g"), rules, ()),
        (replace(one, base_file=None), rules, ()),
        (one, MergeRules(MergeMode.EVENT_TIME_ORDERING, ("ts",)), ()),
        (one, replace(rules, in_part=(frozenset("ab"),)), ()),
        (one, rules, ("id",)),
    ]
    assert slice_digest(one, rules, ()) == slice_digest(replace(one), replace(rules), ())
    assert len({slice_digest(*each) for each in (*others, (one, rules, ()))}) == len(others) + 1


def test_no_frame_is_larger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps 3 of index/key_checkpoints: keys come in pieces of a frame's size, also where they are written at once."""
    monkeypatch.setattr(key_checkpoints, "FRAME_BYTES", 2000)
    keys = [f"{number:06}" for number in range(1000)]
    (tmp_path / MADE.name).write_bytes(content(keys))
    found = list(read_keys(STORAGE, str(tmp_path), MADE))
    assert [key for batch in found for key in batch.to_pylist()] == keys
    assert max(batch.nbytes for batch in found) <= 2000 < 5 * min(batch.nbytes for batch in found[:-1])
