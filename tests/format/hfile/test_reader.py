"""HFiles laid out by hand, in the forms of all writers, read whole and by key."""

from __future__ import annotations

import io
import tracemalloc
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakeward.base.errors import BrokenFile, LakewardError, Unsupported
from lakeward.format.hfile.block import HFileCodec
from lakeward.format.hfile.reader import HFileReader
from tests.format.hfile.hfile_files import (
    HBASE,
    NATIVE,
    Entries,
    Form,
    hfile,
    own,
    protobuf_varint,
    reader,
)

NONE = HFileCodec.NONE
FORMS = {
    "native": NATIVE,
    "native, one entry each": Form(block_entries=1, suffix=b""),
    "native, not compressed": Form(suffix=b"", codec=NONE),
    "early native": Form(suffix=b"", bytes_per_checksum=0),
    "HBase, CRC32": HBASE,
    "HBase, CRC32C": Form(fanout=3, checksum=2, fake_keys=True),
    "HBase, not compressed": Form(fanout=2, checksum=2, bytes_per_checksum=50, fake_keys=True, codec=NONE),
    "HBase, small": Form(block_entries=100, checksum=2),
}
ENTRIES: Entries = [(f"key-{n:03}".encode(), f"value {n}".encode() * (n % 5)) for n in range(0, 80, 2)]


SMALL = ENTRIES[:11]


class SortedModel:
    """What a file must answer: a sorted dict, searched from end to end."""

    def __init__(self, entries: Entries) -> None:
        self.entries = entries

    def lookup(self, keys: list[bytes]) -> dict[bytes, bytes]:
        return {key: value for key, value in self.entries if key in keys}

    def with_prefixes(self, prefixes: list[bytes]) -> Entries:
        return [(key, value) for key, value in self.entries if any(key.startswith(prefix) for prefix in prefixes)]


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 12, 40])
def test_every_form_is_read(form: Form, count: int):
    """Whatever the writer, a scan yields every entry, every key is found, and no other is."""
    entries = ENTRIES[:count]
    hfile_reader = reader(hfile(entries, form))

    assert list(hfile_reader.entries()) == entries
    assert hfile_reader.entry_count == count
    assert hfile_reader.lookup([key for key, _ in entries]) == dict(entries)
    for key, value in entries:
        assert hfile_reader.lookup([key]) == {key: value}
    absent = [f"key-{n:03}".encode() for n in range(1, 80, 2)] + [b"", b"a", b"key-", b"zzz", b"key-0000"]
    assert hfile_reader.lookup(absent) == {}
    assert list(hfile_reader.with_prefixes([b""])) == entries
    assert list(hfile_reader.with_prefixes([b"key-00", b"key-03", b"nothing"])) == [
        entry for entry in entries if entry[0][4:6] in (b"00", b"03")
    ]


keys = st.one_of(
    st.binary(max_size=3),
    st.text(alphabet="a\ue000！￿😀𐀀é", max_size=4).map(lambda text: text.encode()),
)
forms = st.builds(
    Form,
    block_entries=st.integers(1, 5),
    fanout=st.one_of(st.none(), st.integers(2, 3)),
    codec=st.sampled_from(HFileCodec),
    checksum=st.sampled_from([0, 1, 2]),
    bytes_per_checksum=st.integers(1, 100),
    suffix=st.sampled_from([b"", HBASE.suffix]),
    fake_keys=st.booleans(),
)


@given(
    model=st.dictionaries(keys, st.binary(max_size=5), max_size=30),
    form=forms,
    probes=st.lists(keys, max_size=8),
)
def test_a_file_answers_as_a_sorted_dict_does(model: dict[bytes, bytes], form: Form, probes: list[bytes]):
    """Scan, lookup and prefix seek agree with a sorted dict, for keys that are there and for others."""
    entries = sorted(model.items())
    hfile_reader = reader(hfile(entries, form))
    twin = SortedModel(entries)
    probes += [key for key, _ in entries[::2]]

    assert list(hfile_reader.entries()) == entries
    assert hfile_reader.lookup(probes) == twin.lookup(probes)
    assert sorted(hfile_reader.with_prefixes(probes[:4])) == twin.with_prefixes(probes[:4])


@given(
    model=st.dictionaries(st.text(alphabet="a\ue000！￿😀𐀀é", max_size=4), st.binary(max_size=5), max_size=30),
    form=forms.filter(lambda form: not form.fake_keys),
    probes=st.lists(st.text(alphabet="a\ue000！￿😀𐀀é", max_size=3), max_size=8),
)
@example(model={"a": b"1", "😀": b"2", "！": b"3"}, form=Form(block_entries=2), probes=["😀"])
def test_java_order_is_found_too(model: dict[str, bytes], form: Form, probes: list[str]):
    """Hudi sorts Java strings, in which an emoji comes before a full-width letter; every key and prefix is found."""
    in_java_order = sorted(model.items(), key=lambda entry: entry[0].encode("utf-16-be"))
    entries = [(key.encode(), value) for key, value in in_java_order]
    hfile_reader = reader(hfile(entries, form))
    twin = SortedModel(sorted(entries))
    asked = [probe.encode() for probe in probes] + [key for key, _ in entries[::2]]

    assert list(hfile_reader.entries()) == entries
    assert hfile_reader.lookup(asked) == twin.lookup(asked)
    assert sorted(hfile_reader.with_prefixes(asked[:4])) == twin.with_prefixes(asked[:4])


def test_a_run_of_equal_keys_is_scanned_and_its_first_is_found():
    """HBase's writer takes a key twice; Hudi reads the first one."""
    entries = [(b"a", b"1"), (b"b", b"2"), (b"b", b"3"), (b"c", b"4")]

    assert list(reader(hfile(entries, Form(block_entries=4))).entries()) == entries
    assert reader(hfile(entries, Form(block_entries=4))).lookup([b"b"]) == {b"b": b"2"}


def test_prefixes_that_overlap_yield_an_entry_once():
    """An entry comes once, however many prefixes it has."""
    entries = [(b"a", b""), (b"ab", b""), (b"abc", b""), (b"b", b"")]

    assert list(reader(hfile(entries)).with_prefixes([b"ab", b"a", b"abc", b"ab"])) == entries[:3]


class Counting(io.BytesIO):
    """Notes what is read."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.spans: list[tuple[int, int]] = []

    def read(self, size: Any = -1) -> bytes:
        at = self.tell()
        data = super().read(size)
        self.spans.append((at, at + len(data)))
        return data


def test_inside_of_another_file_nothing_else_is_read():
    """In a log block only the range's bytes are read, and for one key no more than the end and one data block."""
    entries = [(b"%06d" % n, bytes(1000)) for n in range(2000)]
    data = own(entries, codec=NONE, block_bytes=20_000)
    before, after = b"#" * 12_345, b"#" * 77_777
    file = Counting(before + data + after)

    hfile_reader = HFileReader(file, offset=len(before), length=len(data), name="x.log")
    assert hfile_reader.lookup([b"000777"]) == {b"000777": bytes(1000)}

    assert sum(end - start for start, end in file.spans) < 64 * 1024 + 21_000
    assert list(hfile_reader.entries()) == entries
    assert min(start for start, _ in file.spans) == len(before)
    assert max(end for _, end in file.spans) == len(before) + len(data)


def test_many_keys_read_each_block_once():
    """A batch of keys is one pass over the file, whatever the order in which they are asked for."""
    entries = [(b"%06d" % n, bytes(1000)) for n in range(2000)]
    data = own(entries, codec=NONE, block_bytes=20_000)
    file = Counting(data)
    hfile_reader = HFileReader(file, length=len(data), name="x")
    file.spans.clear()

    assert len(hfile_reader.lookup([key for key, _ in reversed(entries)])) == 2000

    assert sum(end - start for start, end in file.spans) <= len(data)
    assert len(file.spans) < 110


def test_info_and_meta_blocks_are_read():
    """The file info and the meta blocks are what the writer put there."""
    data = hfile(ENTRIES, HBASE, info={b"schema": b"{}", "ключ".encode(): b""}, meta_blocks={b"bloomFilter": b"AAAA"})

    assert dict(reader(data).info) == {"schema": b"{}", "ключ": b""}
    assert reader(data).meta_block("bloomFilter") == b"AAAA"
    assert reader(data).meta_block("other") is None


def test_long_keys_of_hudi_1_1_are_read():
    """Hudi 1.1 encodes the length of a long index key in a way that no release can read; here both encodings are."""
    for length in (125, 126, 127, 200, 254, 1000, 16_381, 30_000):
        entries = [(prefix * length, b"v") for prefix in (b"a", b"b", b"c")]
        for varint in (None, protobuf_varint):
            for suffix in (b"", HBASE.suffix):
                data = hfile(entries, Form(block_entries=1, suffix=suffix, varint=varint))
                assert reader(data).lookup([b"b" * length]) == dict(entries[1:2]), (length, varint)


@pytest.mark.parametrize("data", [own(SMALL), own(SMALL, codec=NONE), hfile(SMALL, HBASE)])
def test_a_file_cut_short_is_broken(data: bytes):
    """Wherever a file ends early, opening it says so, with its name and an offset inside of it."""
    for length in range(len(data)):
        with pytest.raises(BrokenFile, match=r"x\.hfile is broken at byte \d+"):
            reader(data[:length])
        with pytest.raises(BrokenFile, match=r"x\.hfile is broken at byte \d+"):
            reader(data[:length], length=len(data))


def test_errors_name_the_place_in_the_file_around():
    """An offset in an error is one of the file that holds the range."""
    data = bytearray(b"#" * 1000 + own(ENTRIES))
    data[1000] ^= 1

    with pytest.raises(BrokenFile, match=r"x\.hfile is broken at byte 1000\."):
        list(reader(bytes(data), offset=1000).entries())


def answers(data: bytes) -> tuple[Entries, dict[bytes, bytes], Entries]:
    hfile_reader = reader(data)
    return (
        list(hfile_reader.entries()),
        hfile_reader.lookup([key for key, _ in SMALL[::2]]),
        list(hfile_reader.with_prefixes([b"key-01"])),
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "data",
    [own(SMALL, block_bytes=150), hfile(SMALL, HBASE), hfile(SMALL, FORMS["HBase, not compressed"])],
    ids=["own", "HBase", "HBase, not compressed"],
)
def test_a_flipped_bit_is_an_error_or_changes_nothing(data: bytes):
    """With any one bit flipped, a file that has checksums or gzip's gives the right answers or a typed error, in little
    memory."""
    right = answers(data)
    assert right[0] == SMALL
    tracemalloc.start()
    for place in range(len(data) - 4096 + 80):  # all that lies before the trailer, and the trailer's message
        flipped = bytearray(data)
        flipped[place] ^= 1 << place % 8
        with suppress(LakewardError):
            assert answers(bytes(flipped)) == right, place
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000


@given(data=st.data())
def test_noise_never_does_harm(data: st.DataObject):
    """Bytes overwritten at random, in any form of file, end in an answer or a typed error."""
    form = data.draw(st.sampled_from(list(FORMS.values())))
    noisy = bytearray(hfile(ENTRIES, form))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.one_of(st.integers(0, len(noisy) - 1), st.integers(len(noisy) - 4096, len(noisy) - 4000)))
        junk = data.draw(
            st.one_of(st.binary(min_size=1, max_size=4), st.sampled_from([b"\x7f\xff\xff\xff", b"\xff" * 8]))
        )
        noisy[place : place + len(junk)] = junk
    with suppress(LakewardError):
        answers(bytes(noisy))


def test_an_index_that_leads_in_circles_is_broken():
    """Indexes below the root that lead to the same block again, and again below that one, end at once."""
    form = Form(block_entries=1, fanout=2, codec=NONE)
    data = bytearray(hfile(ENTRIES[:32], form))
    intermediate = [at for at in range(len(data)) if data.startswith(b"IDXINTE2", at)]
    for at in intermediate:
        entry = at + 33 + 4 + 4 * 3
        second = entry + int.from_bytes(data[at + 41 : at + 45], "big")
        data[second : second + 12] = data[entry : entry + 12]

    with pytest.raises(BrokenFile, match="points back"):
        list(reader(bytes(data)).entries())


def test_an_index_that_leads_back_is_broken():
    """Two indexes that share a block below them are an error even where each by itself is sound."""
    form = Form(block_entries=1, fanout=2, codec=NONE)
    data = bytearray(hfile(ENTRIES[:4], form))
    first, second = (at for at in range(len(data)) if data.startswith(b"IDXLEAF2", at))
    size = second - first
    data[second : second + size] = data[first : first + size]

    with pytest.raises(BrokenFile, match="leads back to the block DATABLK"):
        list(reader(bytes(data)).entries())


def test_data_blocks_are_read_by_their_numbers():
    """The entries of some blocks that follow each other come block by block; a file with several levels of index, which
    none of Lakeward has, is refused."""
    entries = [(b"%02d" % number, b"v") for number in range(20)]
    found = reader(hfile(entries, Form(block_entries=3)))

    assert [entry.key for entry in found.data_blocks] == [b"%02d" % number for number in range(0, 20, 3)]
    assert [block.keys.to_pylist() for block in found.read_data(2, 4)] == [[b"06", b"07", b"08"], [b"09", b"10", b"11"]]
    with pytest.raises(Unsupported, match="several levels"):
        _ = reader(hfile(entries, HBASE)).data_blocks
