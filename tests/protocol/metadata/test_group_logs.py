"""The logs of one file group of the metadata table, as blocks of one file and as files."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

from lakeward.format.file_name import parse_any_log
from lakeward.format.metadata.log_file import MetadataBlock, metadata_blocks
from lakeward.protocol.metadata.group_logs import GroupLogs
from lakeward.storage.local import LocalStorage

T = "20270101000000000"
Run = list[tuple[str, bytes]]


def logs(folder: Path, *, native: bool) -> GroupLogs:
    folder.mkdir()
    return GroupLogs(LocalStorage(), str(folder), "record_index", "record-index-0000-0", T, "0-7-0", "{}", native)


def write(of: GroupLogs, runs: list[Run], gone: list[list[str]]) -> None:
    with of.open() as opened:
        for run in runs:
            opened.add_entries(iter(run))
        for keys in gone:
            opened.add_deletes(pa.array(keys, pa.string()))


def blocks(of: GroupLogs) -> list[MetadataBlock]:
    """In the order in which readers take them."""
    found = []
    names = [name for path in Path(of.folder).iterdir() if (name := parse_any_log(path.name, native=True))]
    assert sorted(name.text for name in names) == sorted((s.path or "").partition("/")[2] for s in of.written)
    for name in sorted(names, key=lambda name: name.sort_key):
        path = Path(of.folder) / name.text
        for block in metadata_blocks(path.open("rb"), path.stat().st_size, name.text):
            assert isinstance(block, MetadataBlock)
            found.append(block)
    return found


def stands(of: GroupLogs) -> dict[str, bytes | None]:
    """What the last of them says of each key."""
    found: dict[str, bytes | None] = {}
    for block in blocks(of):
        assert (block.instant, block.schema_json) == (T, "{}")
        if block.hfile is not None:
            found.update({key.decode(): value for key, value in block.hfile.entries()})
        found.update(dict.fromkeys(block.deleted_keys))
    return found


@pytest.mark.parametrize("seed", range(4))
def test_both_forms_say_the_same(tmp_path: Path, seed: int) -> None:
    """Runs of random keys, some of which come again in a later one. Keeps 2 of protocol/metadata/group_logs."""
    print(f"seed {seed}")
    chance = random.Random(seed)
    keys = [f"{word}{number}" for word in ("a", "ü", "😀") for number in range(9)]

    def some() -> list[str]:
        return sorted(chance.sample(keys, chance.randint(1, 9)), key=str.encode)

    runs = [[(key, b"%d" % number) for key in some()] for number in range(chance.randint(0, 3))]
    gone = [some() for _ in range(chance.randint(0 if runs else 1, 4))]
    inline, native = logs(tmp_path / "9", native=False), logs(tmp_path / "10", native=True)
    for of in (inline, native):
        write(of, runs, gone)
    assert stands(inline) == stands(native)
    (stat,) = inline.written
    assert (stat.num_writes, stat.num_deletes) == (
        sum(each.num_writes or 0 for each in native.written),
        sum(each.num_deletes or 0 for each in native.written),
    )


def test_a_file_of_each_has_one_version(tmp_path: Path) -> None:
    """The commit has both, one after the other; the second names the first one beside itself, as Hudi's does."""
    of = logs(tmp_path / "10", native=True)
    write(of, [[("a", b"1"), ("b", b"2")]], [["c"], ["d"]])
    start = f"record-index-0000-0_0-7-0_{T}_1"
    rows, deletes = f"{start}.log.hfile", f"{start}.deletes.hfile"
    assert [
        (stat.path, stat.num_writes, stat.num_deletes, stat.log_version, stat.log_files) for stat in of.written
    ] == [
        (f"record_index/{rows}", 2, 0, 1, (rows,)),
        (f"record_index/{deletes}", 0, 2, 1, (rows, deletes)),
    ]
    for stat in of.written:
        size = (tmp_path / "10" / (stat.path or "").partition("/")[2]).stat().st_size
        assert (stat.file_size_in_bytes, stat.total_write_bytes, stat.log_offset, stat.base_file) == (size, size, 0, "")
        assert (stat.prev_commit, stat.num_inserts) == (T, 0)


def test_keys_that_do_not_ascend_begin_another_file(tmp_path: Path) -> None:
    """Deletes lie behind all entries, and a run without an entry makes none. Keeps 1 of
    protocol/metadata/group_logs."""
    of = logs(tmp_path / "10", native=True)
    write(of, [[("a", b"1")], [], [("a", b"2")]], [["c", "d"], [], ["b"], ["e"]])
    ends = [(stat.path or "").rpartition("_")[2] for stat in of.written]
    assert ends == ["1.log.hfile", "2.log.hfile", "2.deletes.hfile", "3.deletes.hfile"]
    assert stands(of) == {"a": b"2"} | dict.fromkeys("bcde")


def test_deletes_alone_are_one_file(tmp_path: Path) -> None:
    of = logs(tmp_path / "10", native=True)
    write(of, [], [["c"]])
    (stat,) = of.written
    assert (stat.path or "").endswith("_1.deletes.hfile")


def test_a_group_without_anything_has_no_log(tmp_path: Path) -> None:
    """Keeps 1 of protocol/metadata/group_logs."""
    for native in (False, True):
        with pytest.raises(AssertionError, match="has"):
            write(logs(tmp_path / str(native), native=native), [], [])
