"""Names of data files, and what happens to hostile ones."""

from __future__ import annotations

import posixpath
import string
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakeward.base.errors import UntrustedName
from lakeward.format.file_name import (
    HFILE,
    BaseFileName,
    LogFileName,
    NativeLogKind,
    NativeLogName,
    WriteToken,
    check_file_id,
    check_file_name,
    check_plain_name,
    check_relative_path,
    is_native_log,
    parse_base_file,
    parse_log_file,
    parse_native_log,
    resolve,
)

GOLDEN = Path(__file__).parents[1] / "golden"
FILE_ID = "ebf517f7-02cc-4e03-aec7-b7450919b7fd-0"
T = "20261121043703223"
BASE = f"{FILE_ID}_0-15-11_{T}.parquet"
LOG = f".{FILE_ID}_{T}.log.1_0-15-11"

numbers = st.integers(0, 2**31 - 1)
instants = st.text("0123456789", min_size=1, max_size=20)
tokens = st.builds(WriteToken, numbers, numbers, numbers).map(str)
file_ids = st.text(
    st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"], exclude_characters="._/\\"), min_size=1, max_size=40
)
base_files = st.builds(BaseFileName, file_ids, tokens, instants)
log_files = st.one_of(
    st.builds(LogFileName, file_ids, instants, numbers, tokens, st.sampled_from(["", ".cdc"])),
    st.builds(LogFileName, file_ids, instants, numbers, st.none()),
)
words = st.text(string.ascii_letters + string.digits, min_size=1, max_size=12)
native_logs = st.one_of(
    st.builds(NativeLogName, file_ids, tokens, instants, numbers, st.sampled_from(NativeLogKind), words),
    st.builds(
        NativeLogName,
        file_ids,
        tokens,
        instants,
        numbers,
        st.sampled_from([NativeLogKind.DATA, NativeLogKind.DELETES]),
        is_early=st.just(True),
    ),
)


def test_write_token_is_encoded_as_spark_counts() -> None:
    """It is task partition, stage, attempt."""
    assert str(WriteToken(0, 15, 11)) == "0-15-11"


@given(base_files)
def test_base_file_name_and_value_are_the_same_thing(name: BaseFileName) -> None:
    """Parsing a formatted base file name gives back what was formatted, and it passes the gate."""
    assert parse_base_file(name.text) == name
    assert parse_log_file(name.text) is None
    assert check_file_name(name.text) == name.text


@given(log_files)
def test_log_file_name_and_value_are_the_same_thing(name: LogFileName) -> None:
    """Parsing a formatted log file name gives back what was formatted, and it passes the gate."""
    assert parse_log_file(name.text) == name
    assert parse_base_file(name.text) is None
    assert check_file_name(name.text) == name.text


@given(native_logs)
def test_native_log_name_and_value_are_the_same_thing(name: NativeLogName) -> None:
    """Parsing a formatted native name gives back what was formatted. It is no base file's, and no gate that was made
    for older tables lets it through."""
    assert parse_native_log(name.text) == name
    assert is_native_log(name.text) is not name.is_early
    assert parse_log_file(name.text) is None
    for extension in ("parquet", HFILE):
        assert parse_base_file(name.text, extension=extension) is None
        with pytest.raises(UntrustedName):
            check_file_name(name.text, extension=extension)


@given(st.text("ab-_./\\\n\x000159 logparquetcdc%", max_size=60))
@example(f".{FILE_ID}_{T}.log.01_0-15-11")
@example(f"{FILE_ID}_0-15-11_{T}_01.log.parquet")
@example(BASE + "\n")
def test_only_names_that_can_be_encoded_are_parsed(name: str) -> None:
    """What is parsed is formatted the same again, and is of one grammar; so no two names mean one file."""
    found = [parsed for parsed in (parse_base_file(name), parse_log_file(name), parse_native_log(name)) if parsed]
    assert [parsed.text for parsed in found] in ([], [name])


def test_logs_of_early_releases_have_no_write_token() -> None:
    """A log name may end with its version."""
    assert parse_log_file(f".{FILE_ID}_{T}.log.3") == LogFileName(FILE_ID, T, 3, None)


def test_change_logs_are_distinguished() -> None:
    """A CDC log says so with its suffix."""
    name = parse_log_file(f"{LOG}.cdc")
    assert name is not None and name.is_cdc and name.write_token == "0-15-11"
    assert not LogFileName(FILE_ID, T, 1, "0-15-11").is_cdc


def test_logs_sort_by_instant_version_and_token() -> None:
    """Versions compare as numbers, write tokens as text, and a missing token comes first."""
    in_order = [
        f".{FILE_ID}_20260101000000000.log.2_0-0-0",
        f".{FILE_ID}_20260101000000000.log.10_0-0-0",
        f".{FILE_ID}_20260102000000000.log.1",
        f".{FILE_ID}_20260102000000000.log.1_0-10-9",
        f".{FILE_ID}_20260102000000000.log.1_0-9-10",
        f".{FILE_ID}_20260102000000000.log.1_0-9-10.cdc",
    ]
    names = [name for text in reversed(in_order) if (name := parse_log_file(text)) is not None]

    assert [name.text for name in sorted(names, key=lambda name: name.sort_key)] == in_order


@pytest.mark.parametrize(
    ("name", "kind", "written"),
    [
        ("136281f3-c24e-423b-a65a-95dbfbddce1d_1-0-1_20250409161256974_4.cdc.parquet", "cdc", "parquet"),
        ("files-0000-0_0-0-0_00000000000000000_1.log.hfile", "log", "hfile"),
        (f"{FILE_ID}_0-15-11_{T}_1.deletes.parquet", "deletes", "parquet"),
        (f"{FILE_ID}_0-15-11_{T}_1.log.lance", "log", "lance"),
        (f"{FILE_ID}_0-15-11_{T}_1.parquet", "log", "parquet"),
        (f"{FILE_ID}_0-15-11_{T}_1.delete.parquet", "deletes", "parquet"),
    ],
)
def test_kind_and_format_are_in_the_name(name: str, kind: str, written: str) -> None:
    """So it is in examples of Hudi, in a format that this release does not read, and in the first spellings."""
    parsed = parse_native_log(name)
    assert parsed is not None and (parsed.kind, parsed.format, parsed.text) == (kind, written, name)


@pytest.mark.parametrize(
    "end",
    [
        "1.archive.parquet",
        "1.log.parquet.tmp",
        "1.delete.orc",
        "1.deletes",
        "01.parquet",
        "1.hfile",
        "99999999999.log.x",
    ],
)
def test_other_names_are_no_native_logs(end: str) -> None:
    """An archive is never native; the first spellings are of Parquet alone; a version is an int of Java."""
    assert parse_native_log(f"{FILE_ID}_0-15-11_{T}_{end}") is None


def test_a_version_with_leading_zeros_is_shown_but_not_parsed() -> None:
    """Hudi reads it as the version 1: in an older table it must go on being reported."""
    name = f"{FILE_ID}_0-15-11_{T}_01.log.parquet"
    assert is_native_log(name) and parse_native_log(name) is None


def test_inline_and_native_logs_have_one_order() -> None:
    """Instant, version as a number, token as text, then rows before deletes before changes."""
    in_order = [
        f".{FILE_ID}_20260101000000000.log.2_0-9-9",
        f"{FILE_ID}_0-0-0_20260101000000000_3.log.parquet",
        f"{FILE_ID}_0-0-0_20260101000000000_3.deletes.parquet",
        f"{FILE_ID}_0-0-0_20260101000000000_3.cdc.parquet",
        f"{FILE_ID}_0-0-1_20260101000000000_3.log.parquet",
        f"{FILE_ID}_0-0-0_20260101000000000_10.delete.parquet",
        f".{FILE_ID}_20260102000000000.log.1",
        f"{FILE_ID}_0-0-0_20260102000000000_1.deletes.parquet",
        f".{FILE_ID}_20260102000000000.log.1_0-0-0.cdc",
    ]
    names = [name for text in reversed(in_order) if (name := parse_log_file(text) or parse_native_log(text))]
    assert [name.text for name in sorted(names, key=lambda name: name.sort_key)] == in_order


@pytest.mark.parametrize(
    "name",
    [
        ".hoodie_partition_metadata",
        ".hoodie_partition_metadata.parquet",
        f".{BASE}.crc",
        f".{LOG}.crc",
        f"{FILE_ID}_0-15-11_{T}.orc",
        f"{FILE_ID}_0-15-11_{T}.parquet.tmp",
        f"{FILE_ID}_0-15-11_{T}_1.log.parquet",  # a native log of table version 10
        f".{FILE_ID}_{T}.archive.1_0-15-11",
        f".{FILE_ID}_{T}.log.99999999999_0-15-11",
        f".{FILE_ID}_{T}.log.1_0-15-11.tmp",
        "_0-15-11_1.parquet",
        "part-00000.parquet",
        "",
    ],
)
def test_other_files_of_a_partition_are_no_data_files(name: str) -> None:
    """Metadata, checksums, other formats and temporary names fit neither grammar."""
    assert parse_base_file(name) is None
    assert parse_log_file(name) is None
    with pytest.raises(UntrustedName):
        check_file_name(name)


@pytest.mark.parametrize("version", ["v6", "v9"])
def test_hudis_own_files_are_understood(version: str) -> None:
    """Every data file of a real table is parsed, and its name given back."""
    names = [path.name for path in (GOLDEN / version / "table/p").iterdir() if "metadata" not in path.name]
    logs = [log for name in names if (log := parse_log_file(name)) is not None]
    bases = [base for name in names if (base := parse_base_file(name)) is not None]

    assert (len(logs), len(bases)) == (3, 1)
    assert {log.text for log in logs} | {base.text for base in bases} == set(names)


LEGAL_PARTITIONS = [
    "",
    "p",
    "2024/01/02",
    "day=2024-01-02/city=São Paulo",
    "a b",
    "...",
    "x=1%",
    "%2e%2e/%2F",  # literally these characters
    "日本/ü",
    "a:b",
    "region=__HIVE_DEFAULT_PARTITION__",
    "p/.hoodie",
    ".hidden",
]


@pytest.mark.parametrize("partition_path", LEGAL_PARTITIONS)
@pytest.mark.parametrize("name", [BASE, LOG])
def test_legal_paths_resolve_to_themselves_below_the_table(partition_path: str, name: str) -> None:
    """A partition path is text: blanks, `=`, `%`, accents and dots are characters of it and nothing is decoded."""
    relative = f"{partition_path}/{name}" if partition_path else name
    assert check_relative_path(partition_path) == partition_path
    assert resolve("/data/orders", relative) == f"/data/orders/{relative}"


HOSTILE_PARTITIONS = [
    "/",
    "/etc",
    "//p",
    "p/",
    "p//q",
    ".",
    "..",
    "../other",
    "p/../q",
    "p/..",
    "./p",
    "p/.",
    ".hoodie",
    ".hoodie/metadata",
    "..\\other",
    "p\\..\\q",
    "p\\.",
    "p\0",
    "s3://bucket/p",
    "p\udc80",
]


@pytest.mark.parametrize("path", HOSTILE_PARTITIONS)
def test_paths_that_could_lead_elsewhere_are_refused(path: str) -> None:
    """Absolute paths, `..` (also with backslashes), the metadata folder and what is no UTF-8 end in an error that says
    so."""
    with pytest.raises(UntrustedName) as refused:
        check_relative_path(path)
    assert repr(path) in str(refused.value)
    with pytest.raises(UntrustedName):
        resolve("/data/orders", f"{path}/{BASE}")


@pytest.mark.parametrize("path", ["p\\q", "p\nq", "p\rq", "p\tq", "p\x1b[2J", "p\u2028q", "p\x85q", "a=b {c}", "😀"])
def test_paths_that_hudi_writes_are_lawful(path: str) -> None:
    """Released Hudi makes partitions of such names, and reads, updates and compacts them; names of files are plain."""
    assert check_relative_path(path) == path
    assert resolve("/data/orders", f"{path}/{BASE}") == f"/data/orders/{path}/{BASE}"
    if path.isprintable() and "\\" not in path:
        assert check_plain_name(path) == path
    else:
        with pytest.raises(UntrustedName):
            check_plain_name(path)


@pytest.mark.parametrize(
    "path", ["", "p", "p/", f"/{BASE}", f"p/{BASE}/", f"p/x{LOG}", f"p/{BASE}\n", f"p/{BASE}\0", f"../{BASE}", "p/.."]
)
def test_only_data_files_are_resolved(path: str) -> None:
    """A path that does not end with the name of a data file is refused."""
    with pytest.raises(UntrustedName):
        resolve("/data/orders", path)


@given(
    st.lists(st.one_of(st.sampled_from(["..", ".", "", ".hoodie", BASE, LOG, "p", "\\", "\0"]), st.text(max_size=5)))
)
def test_nothing_resolves_outside_the_table(parts: list[str]) -> None:
    """Whatever is resolved is a data file below the base path, as any file system understands paths."""
    try:
        resolved = resolve("/data/orders", "/".join(parts))
    except UntrustedName:
        return
    assert posixpath.normpath(resolved) == resolved
    assert resolved.startswith("/data/orders/") and not resolved.startswith("/data/orders/.hoodie/")
    check_file_name(posixpath.basename(resolved))


@pytest.mark.parametrize("file_id", [FILE_ID, "files-0000-0", "00000003-1111-2222-3333-444455556666-0", "ü"])
def test_file_ids_are_taken_as_they_are(file_id: str) -> None:
    """Anything that a file name can carry is a file id."""
    assert check_file_id(file_id) == file_id


@pytest.mark.parametrize("file_id", ["", "a_b", "a.b", "..", "a/b", "a\\b", "a\n", "a\0"])
def test_file_ids_that_break_names_are_refused(file_id: str) -> None:
    """A file id with a separator of the file-name grammar would make another file's name."""
    with pytest.raises(UntrustedName):
        check_file_id(file_id)


HFILE_BASE = "record-index-a%2Fb%2Dc-0000-0_3-89-248_20261121114133085.hfile"


def test_base_files_of_a_metadata_table():
    """HFiles are base files for a caller that asks for them, and then those of a data table are none."""
    parsed = parse_base_file(HFILE_BASE, extension=HFILE)

    assert parsed == BaseFileName("record-index-a%2Fb%2Dc-0000-0", "3-89-248", "20261121114133085", HFILE)
    assert parsed is not None and parsed.text == HFILE_BASE
    assert parse_base_file(HFILE_BASE) is None and parse_base_file(BASE, extension=HFILE) is None
    assert check_file_name(HFILE_BASE, extension=HFILE) == HFILE_BASE
    assert check_file_name(LOG, extension=HFILE) == LOG
    assert resolve("/m", f"files/{HFILE_BASE}", extension=HFILE) == f"/m/files/{HFILE_BASE}"
    for call in (check_file_name, lambda name: resolve("/t", name), lambda name: resolve("/t", f"p/{name}")):
        with pytest.raises(UntrustedName):
            call(HFILE_BASE)
    with pytest.raises(UntrustedName):
        check_file_name(BASE, extension=HFILE)
