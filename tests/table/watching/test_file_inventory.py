"""What goes into the inventory comes out of it, whichever way it came in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakeward.format.file_name import parse_any_log, parse_base_file
from lakeward.storage.storage import FileStatus
from lakeward.table.file_group import BaseFile, LogFile
from lakeward.table.file_system_view import PartitionFiles, sort_files
from lakeward.table.watching.file_inventory import UNKNOWN_ROWS, BaseFileKnowledge, FileInventory

INSTANTS = st.sampled_from([f"202601010000{n:02}000" for n in range(8)])
IDS = st.sampled_from(["a-0", "b-0", "c-0"])
TOKENS = st.sampled_from(["0-0-0", "1-10-2", "12-3-4"])
BASES = st.builds(lambda f, t, i: f"{f}_{t}_{i}.parquet", IDS, TOKENS, INSTANTS)
LOGS = st.builds(
    lambda f, i, v, t: f".{f}_{i}.log.{v}{t}",
    IDS,
    INSTANTS,
    st.integers(0, 12),
    st.sampled_from(["", "_0-0-0", "_1-2-3", "_1-2-3.cdc"]),
)
NATIVE_LOGS = st.builds(
    lambda f, t, i, v, end: f"{f}_{t}_{i}_{v}{end}",
    IDS,
    TOKENS,
    INSTANTS,
    st.integers(0, 12),
    st.sampled_from([".log.parquet", ".deletes.parquet", ".cdc.parquet", ".log.lance", ".parquet", ".delete.parquet"]),
)
FILES = st.dictionaries(
    st.one_of(BASES, LOGS, NATIVE_LOGS, st.just("x.parquet.tmp")), st.integers(0, 2**40), max_size=12
)
PARTITIONS = st.sampled_from(["", "p=1", "2024/01"])


def listed(partition: str, files: dict[str, int]) -> PartitionFiles:
    statuses = [FileStatus(f"/t/{name}", files[name], 0.0, False) for name in sorted(files)]
    return sort_files(partition, statuses, native=True)


@given(PARTITIONS, FILES)
def test_a_listing_comes_out_as_it_went_in(partition: str, files: dict[str, int]) -> None:
    """It has names, sizes and paths, in the order of groups that a view sorts by anyway."""
    inventory = FileInventory()
    inventory.replace_partition(listed(partition, files))
    assert in_order(inventory.files(partition)) == in_order(listed(partition, files))


@given(PARTITIONS, FILES, FILES, FILES)
def test_adding_and_removing_equal_a_listing(
    partition: str, first: dict[str, int], added: dict[str, int], removed: dict[str, int]
) -> None:
    """They equal it to the byte: a listing that follows finds no difference."""
    inventory = FileInventory()
    inventory.replace_partition(listed(partition, first))
    new = listed(partition, {name: size for name, size in added.items() if name != "x.parquet.tmp"})
    for file in (*new.base_files, *new.log_files):
        inventory.add(partition, file)
    for name in removed:
        if (parsed := parse_base_file(name) or parse_any_log(name, native=True)) is not None:
            inventory.remove(partition, parsed)
    gone = {name for name in removed if name != "x.parquet.tmp"}
    left = {name: size for name, size in {**first, **added}.items() if name not in gone}
    if "x.parquet.tmp" not in first:
        left.pop("x.parquet.tmp", None)
    assert in_order(inventory.files(partition)) == in_order(listed(partition, left))


def test_what_was_learned_stays_as_long_as_the_file() -> None:
    """Rows and footers survive a listing of the same file, and instants that are numbered again."""
    names = {"a-0_0-0-0_20260101000000000.parquet": 10, "a-0_0-0-0_20260101000001000.parquet": 11}
    inventory = FileInventory()
    files = listed("p", names)
    inventory.replace_partition(files)
    inventory.learn(files.base_files[1], rows=7)
    inventory.learn(files.base_files[1], is_plain=True)

    assert not inventory.replace_partition(files)
    inventory.replace_partition(listed("p", dict([list(names.items())[1]])))
    inventory.forget_unused_instants()

    knowledge: dict[str, BaseFileKnowledge] = {}
    inventory.files("p", knowledge)
    assert knowledge == {"p/a-0_0-0-0_20260101000001000.parquet": (7, True)}
    inventory.replace_partition(listed("p", {"a-0_0-0-0_20260101000001000.parquet": 12}))
    inventory.files("p", knowledge)
    assert knowledge == {"p/a-0_0-0-0_20260101000001000.parquet": (UNKNOWN_ROWS, False)}, "another size, another file"


def test_partitions_that_are_gone() -> None:
    """They and all that is in them is forgotten."""
    inventory = FileInventory()
    for path in ("p", "q"):
        inventory.replace_partition(listed(path, {"a-0_0-0-0_20260101000000000.parquet": 10}))
    assert inventory.keep_partitions(["q"])
    assert not inventory.keep_partitions(["q"])
    assert (inventory.partitions, inventory.file_groups()) == (("q",), 1)


def in_order(files: PartitionFiles) -> tuple[list[BaseFile], list[LogFile], tuple[str, ...]]:
    return (
        sorted(files.base_files, key=lambda file: file.name),
        sorted(files.log_files, key=lambda file: file.name.text),
        files.unrecognised,
    )
