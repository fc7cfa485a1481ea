"""Reading the metadata table: the record of a key, found by key, by its start, or by going through everything."""

from __future__ import annotations

import random
from pathlib import Path
from typing import BinaryIO

import pytest

from lakeward.base.errors import BrokenFile, NotFound, Unsupported
from lakeward.format.metadata.codec import metadata_codec
from lakeward.format.metadata.key import file_group_index, file_group_indexes
from lakeward.format.metadata.merge import merge_records
from lakeward.format.metadata.partition import FILES, RECORD_INDEX
from lakeward.format.metadata.record import FileEntry, FilesRecord, MetadataRecord
from lakeward.storage.local import LocalStorage
from lakeward.table.metadata import metadata_reader
from lakeward.table.metadata.metadata_reader import SliceReader
from tests.counting_storage import CountingStorage
from tests.table.metadata.metadata_files import SCHEMA, MetadataFiles, Records, all_partitions, files, location, sizes

META_COLUMN = '{"name": "_hoodie_commit_time", "type": ["null", "string"], "default": null}, '
GROUP = "files-0000-0"


@pytest.fixture
def table(tmp_path: Path) -> MetadataFiles:
    return MetadataFiles(tmp_path)


def scan(table: MetadataFiles, key: str = "p") -> dict[str, int] | None:
    """The files under one key, by every way to find it."""
    reader = table.reader()
    (found,) = reader.lookup(FILES, [key]).values() or [None]
    assert dict(reader.scan(FILES)).get(key) == found
    assert dict(reader.with_prefixes(FILES, [key])).get(key) == found
    return None if found is None else sizes(found)


def test_logs_are_merged_onto_the_base(table: MetadataFiles):
    """Files add up, and a deletion takes one away, whichever file of the slice it stands in."""
    table.compaction("01", "02", files={"p": files(a=1, b=2)})
    table.delta("03", "04", files={"p": files(c=3)})
    table.delta("05", "06", files={"p": files(a=None, c=4)})

    assert scan(table) == {"b": 2, "c": 4}


def test_blocks_that_do_not_count_are_not_there(table: MetadataFiles):
    """A write that is complete in the metadata table and pending on the table itself is not seen."""
    table.delta("01", "02", files={"p": files(a=1)})
    table.delta("03", "04", files={"p": files(b=2), "q": files(c=3)})
    assert scan(table) == {"a": 1, "b": 2}

    table.data("03.deltacommit.inflight")
    assert scan(table) == {"a": 1}
    assert scan(table, "q") is None

    table.data("03_05.deltacommit")
    assert scan(table) == {"a": 1, "b": 2}


def test_the_block_says_its_instant_not_the_name_of_its_file(table: MetadataFiles):
    """Hudi's readers have it so."""
    table.delta("01", "02", files={"p": files(a=1)})
    table.log(FILES, GROUP, "03", {"p": files(b=2)}, block_instant="05")
    table.commit("03", "deltacommit", "04")
    assert scan(table) == {"a": 1}

    table.data("05_06.commit")
    assert scan(table) == {"a": 1, "b": 2}


def test_a_delete_hides_what_is_older(table: MetadataFiles):
    """It hides it in the base and in logs; an index without the key says nothing about it."""
    table.compaction("01", "02", files={"p": files(a=1), "q": files(x=9)})
    table.delta("03", "04", files={"p": files(b=2)})
    table.delta("05", "06", files={"p": None})

    assert scan(table) is None
    assert scan(table, "q") == {"x": 9}


def test_a_delete_with_a_log_behind_it_hides_logs_only(table: MetadataFiles):
    """Hudi puts the logs together first, and what follows a delete replaces it; the base is then merged as ever."""
    table.compaction("01", "02", files={"p": files(a=1)})
    table.delta("03", "04", files={"p": files(b=2)})
    table.delta("05", "06", files={"p": None})
    table.delta("07", "08", files={"p": files(c=3)})

    assert scan(table) == {"a": 1, "c": 3}


def test_a_torn_block_is_skipped(table: MetadataFiles):
    """A writer died over it; Hudi's readers skip it, too."""
    table.delta("01", "02", files={"p": files(a=1)})
    path = table.log(FILES, GROUP, "03", {"p": files(b=2)})
    table.commit("03", "deltacommit", "04")
    path.write_bytes(path.read_bytes()[:-20])

    assert scan(table) == {"a": 1}


@pytest.mark.parametrize("cut", [20, 10_000], ids=["end", "all"])
@pytest.mark.parametrize("record", [files(b=2), None], ids=["records", "deletes"])
def test_a_torn_native_log_is_an_error(tmp_path: Path, record: FilesRecord | None, cut: int):
    """It is whole once it is visible, so what is missing of it was there; the error names the file."""
    table = MetadataFiles(tmp_path, native=lambda: True)
    table.delta("01", "02", files={"p": files(a=1)})
    path = table.log(FILES, GROUP, "03", {"p": record})
    table.commit("03", "deltacommit", "04")
    assert scan(table) == ({"a": 1, "b": 2} if record else None)
    path.write_bytes(path.read_bytes()[:-cut])

    with pytest.raises(BrokenFile, match=path.name.replace(".", r"\.")):
        scan(table)


def test_nothing_is_found_where_nothing_is(table: MetadataFiles):
    """An empty file group answers, and so does an empty question."""
    table.delta("01", "02", files={})

    assert scan(table) is None
    assert list(table.reader().scan(FILES)) == []
    assert table.reader().lookup(FILES, []) == {}
    assert list(table.reader().with_prefixes(FILES, [])) == []


def test_a_file_that_was_cleaned_away_is_an_error(table: MetadataFiles):
    """Half of the answer would look like all of it."""
    table.delta("01", "02", files={"p": files(a=1)})
    reader = table.reader()
    for log in (table.metadata / FILES).iterdir():
        log.unlink()

    with pytest.raises(NotFound):
        reader.lookup(FILES, ["p"])


def test_records_of_other_types_under_one_key_are_broken(table: MetadataFiles):
    """Nothing could stand for both."""
    table.delta("01", "02", files={"p": files(a=1)})
    table.delta("03", "04", files={"p": all_partitions("q")})

    with pytest.raises(BrokenFile, match="'p'"):
        table.reader().lookup(FILES, ["p"])


def test_a_base_file_out_of_order_is_broken(table: MetadataFiles):
    """A key that is there twice, or after a greater one, would be merged with itself or missed."""
    for number, keys in (("01", "ba"), ("03", "aa")):
        table.base_file(FILES, GROUP, number, {}, entries=[(key, files(a=1)) for key in keys])
        table.commit(number, "commit", f"{int(number) + 1:02}")
        with pytest.raises(BrokenFile, match="before a smaller one"):
            list(table.reader().scan(FILES))


def test_a_base_file_without_a_schema_is_broken(table: MetadataFiles):
    """Its records cannot be decoded by another one's."""
    table.base_file(FILES, GROUP, "01", {"p": files(a=1)}, schema=None)
    table.commit("01", "commit", "02")

    with pytest.raises(BrokenFile, match="by which schema"):
        table.reader().lookup(FILES, ["p"])


def test_keys_go_where_their_hash_says(tmp_path: Path):
    """Each key is looked for in one file group, and all of them hold what a scan finds."""
    table = MetadataFiles(tmp_path, record_index=3)
    of = {f"ключ-{n}": location(f"f{n}") for n in range(100)}
    table.delta("01", "02", record_index=of)
    reader = table.reader()

    assert reader.file_count(RECORD_INDEX) == 3
    assert reader.lookup(RECORD_INDEX, [*of, "nothing"]) == of
    assert dict(reader.scan(RECORD_INDEX)) == of
    assert dict(reader.with_prefixes(RECORD_INDEX, ["ключ-1", "ключ-11"])) == {
        key: record for key, record in of.items() if key.startswith("ключ-1")
    }


def test_each_data_partition_may_have_its_own_record_index(tmp_path: Path):
    """The same key may be in several, and the name of a file group holds the escaped path of its partition."""
    groups = [f"record-index-{part}-{number:04}-0" for part in ("a%2Fb%2Dc", "ü") for number in range(2)]
    table = MetadataFiles(tmp_path, record_index=groups)
    keys = [f"k{n}" for n in range(20)]
    for index, part in enumerate(("a/b-c", "ü")):
        own = groups[2 * index : 2 * index + 2]
        table.spread("record_index", own, "01", {key: location("f", part) for key in keys})
    table.commit("01", "deltacommit", "02")
    reader = table.reader()

    for part in ("a/b-c", "ü"):
        assert reader.file_count(RECORD_INDEX, data_partition=part) == 2
        assert reader.lookup(RECORD_INDEX, keys, data_partition=part) == {key: location("f", part) for key in keys}
    assert reader.lookup(RECORD_INDEX, keys, data_partition="never written") == {}
    assert len(list(reader.scan(RECORD_INDEX))) == 40


def test_a_secondary_index_is_asked_in_every_group(tmp_path: Path):
    """Its keys were spread by a part of them in one version and by all of them in the other."""
    groups = ["secondary-index-v-0000-0", "secondary-index-v-0001-0"]
    table = MetadataFiles(tmp_path, secondary_index_v=groups)
    keys = [f"value$k{n}" for n in range(8)]
    for key in keys:
        table.log("secondary_index_v", groups[1 - file_group_index(key, 2)], "01", {key: location("f")})
    table.commit("01", "deltacommit", "02")

    assert set(table.reader().lookup("secondary_index_v", keys)) == set(keys)
    assert {key for key, _ in table.reader().with_prefixes("secondary_index_v", ["value$"])} == set(keys)


def test_only_the_blocks_that_matter_are_read(tmp_path: Path):
    """A lookup reads the end of a file and the blocks of its keys; a scan yields before it has read everything."""
    table = MetadataFiles(tmp_path, record_index=1)
    chance = random.Random(1)
    of = {f"{n:08}": location("".join(chance.choices("abcdefghij", k=500))) for n in range(6000)}
    table.compaction("01", "02", record_index=of)
    size = max(path.stat().st_size for path in (table.metadata / RECORD_INDEX).iterdir())
    assert size > 1_000_000

    storage = CountingStorage()
    reader = table.reader(storage)
    assert reader.lookup(RECORD_INDEX, ["00000007"]) == {"00000007": of["00000007"]}
    assert list(reader.with_prefixes(RECORD_INDEX, ["0000001"])) == [(key, of[key]) for key in sorted(of)[10:20]]
    next(reader.scan(RECORD_INDEX))
    assert storage.bytes_read < size * 3 * 0.6


# Some of these keys lie elsewhere in the order of Java's strings than in that of their bytes.
KEYS = [f"{start}{n}" for start in ("a", "ab", "ü", "鍵", "😀", "！", "😀！", "\ue000") for n in range(6)]


@pytest.mark.parametrize("seed", range(12))
def test_every_way_finds_what_a_model_holds(tmp_path: Path, seed: int):
    """Random delta commits, deletes, compactions by two sort orders and pending instants are held against two dicts; on
    version 10, too, with native logs between those of before the upgrade."""
    print(f"seed {seed}")
    chance = random.Random(seed)
    native = (lambda: chance.random() < 0.7) if seed % 2 else None
    table = MetadataFiles(tmp_path, native=native, files=chance.choice((1, 3)))
    base: dict[str, MetadataRecord] = {}
    logs: dict[str, MetadataRecord | None] = {}
    table.delta("01", "02", files={})
    for number in range(3, 3 + 2 * 15, 2):
        now, then = f"{number:02}", f"{number + 1:02}"
        if chance.random() < 0.2:
            base, logs = merged(base, logs), {}
            table.compaction(now, then, java_order=chance.random() < 0.5, files=base)
            continue
        records: Records = {
            key: None if chance.random() < 0.2 else some_files(chance)
            for key in chance.sample(KEYS, chance.randint(0, 12))
        }
        table.delta(now, then, files=records)
        if chance.random() < 0.2:
            table.data(f"{now}.deltacommit.requested")
            continue
        for key, record in records.items():
            older = logs.get(key)
            logs[key] = record if older is None or record is None else merge_records(older, record, where=key)

    expected = merged(base, logs)
    reader = table.reader()
    scanned = list(reader.scan(FILES))
    assert len(scanned) == len(expected) and dict(scanned) == expected
    places = file_group_indexes([key for key, _ in scanned], len(table.groups[FILES])).tolist()
    assert [key.encode() for key, _ in scanned] == [
        key for _, key in sorted(zip(places, (key.encode() for key, _ in scanned), strict=True))
    ], "in the order of their bytes, one group after the other"
    for schema in (SCHEMA, WITH_META_COLUMNS):
        assert compacted(table, schema) == expected
    assert reader.lookup(FILES, KEYS) == expected
    for prefixes in (["a"], ["ab", "ü"], ["😀"], ["！", "😀！", "鍵1"], [""]):
        found = list(reader.with_prefixes(FILES, prefixes))
        assert len(found) == len(dict(found))
        assert dict(found) == {key: r for key, r in expected.items() if key.startswith(tuple(prefixes))}


WITH_META_COLUMNS = SCHEMA.replace('"fields": [', '"fields": [' + META_COLUMN, 1)


def compacted(table: MetadataFiles, schema: str) -> dict[str, MetadataRecord]:
    """What would be written into base files, whose keys ascend."""
    loaded, codec = table.load(partitions=(FILES,)), metadata_codec(schema)
    reader = SliceReader(LocalStorage(), loaded.base_path, loaded.valid_instants)
    found: dict[str, MetadataRecord] = {}
    for slice_ in loaded.slices[FILES]:
        entries = list(reader.compacted(slice_, schema))
        assert [key for key, _ in entries] == sorted(key for key, _ in entries)
        assert len(entries) <= reader.entry_count_max(slice_)
        found |= {key.decode(): codec.decode(payload, "f") for key, payload in entries}
    return found


def test_what_was_not_merged_is_compacted_as_it_is(table: MetadataFiles):
    """A record that one file has alone is copied; one of another schema, or of several files, is not."""
    table.compaction("01", "02", files={"p": files(a=1), "q": files(b=2)})
    table.delta("03", "04", files={"q": files(c=3), "r": files(d=4)})
    assert compacted(table, SCHEMA) == {"p": files(a=1), "q": files(b=2, c=3), "r": files(d=4)}
    assert compacted(table, WITH_META_COLUMNS) == compacted(table, SCHEMA)


def test_small_logs_are_not_kept_open_while_a_group_is_compacted(table: MetadataFiles):
    """A thousand of them would be a thousand open files."""
    for number in range(1, 21, 2):
        table.delta(f"{number:02}", f"{number + 1:02}", files={"p": files(**{f"f{number}": 1})})
    storage = RememberingStorage()
    loaded = table.load(partitions=(FILES,))
    (slice_,) = loaded.slices[FILES]
    assert len(slice_.log_files) == 10
    next(SliceReader(storage, loaded.base_path, loaded.valid_instants).compacted(slice_, SCHEMA))
    assert [file for file in storage.opened if not file.closed] == []


class RememberingStorage(LocalStorage):
    """Remembers the files that it opened."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[BinaryIO] = []

    def open_input(self, path: str) -> BinaryIO:
        self.opened.append(super().open_input(path))
        return self.opened[-1]


def test_keys_of_doubtful_place_are_bounded(table: MetadataFiles, monkeypatch: pytest.MonkeyPatch):
    """They are held until the next other key, and there may be none."""
    monkeypatch.setattr(metadata_reader, "_ASIDE_BYTES_MAX", 2000)
    table.delta("01", "02", files={f"😀{number:03}": files(a=1) for number in range(200)})
    with pytest.raises(Unsupported, match="in bounded memory"):
        compacted(table, SCHEMA)


def merged(base: dict[str, MetadataRecord], logs: dict[str, MetadataRecord | None]) -> dict[str, MetadataRecord]:
    found = dict(base)
    for key, record in logs.items():
        if record is None:
            found.pop(key, None)
        else:
            both = merge_records(base[key], record, where=key) if key in base else record
            assert both is not None
            found[key] = both
    return found


def some_files(chance: random.Random) -> FilesRecord:
    names = chance.sample("abcdef", chance.randint(1, 4))
    return FilesRecord(
        {name: FileEntry(0, True) if chance.random() < 0.3 else FileEntry(chance.randint(1, 9)) for name in names}
    )
