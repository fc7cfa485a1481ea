"""Keys and paths of rows, by the table's properties."""

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from lakeward.base.errors import Refused, Unsupported, UsageError
from lakeward.table.table_config import SLASHES_IN_DATES, TableConfig
from lakeward.write.keys.key_generator import key_generator, names_its_field
from lakeward.write.keys.value_text import value_text

HIVE = "hoodie.datasource.write.hive_style_partitioning"
ENCODE = "hoodie.datasource.write.partitionpath.urlencode"


def config(keys="id", partition="part", version=9, **properties):
    return TableConfig(
        {
            "hoodie.table.name": "t",
            "hoodie.table.version": str(version),
            "hoodie.table.recordkey.fields": keys,
            "hoodie.table.partition.fields": partition,
            **{name.replace("_kind", "hoodie.table.keygenerator.type"): value for name, value in properties.items()},
        }
    )


def made(config, rows, **shown):
    keys, paths = key_generator(config, **shown).keys(pa.RecordBatch.from_pylist(rows))
    return list(zip(keys.to_pylist(), paths.to_pylist(), strict=True))


def test_one_field_is_its_value():
    assert made(config(), [{"id": 5, "part": "x"}, {"id": 6, "part": None}]) == [
        ("5", "x"),
        ("6", "__HIVE_DEFAULT_PARTITION__"),
    ]


def test_several_fields_are_named():
    rows = [{"a": "k,2", "b": 1}, {"a": None, "b": 2}, {"a": "", "b": None}]
    table = config("a,b", "", _kind="NON_PARTITION")

    assert made(table, rows[:2]) == [("a:k,2,b:1", ""), ("a:__null__,b:2", "")]
    with pytest.raises(UsageError, match="Row 3 has no record key"):
        made(table, rows)


def test_complex_names_one_field_by_the_version():
    """Keeps 2 of write/keys/key_generator: below version 9 it must be said which of two forms keys have."""
    rows = [{"id": "k", "part": "x", "q": 1}]
    fields = {"partition": "part,q", "_kind": "COMPLEX"}

    assert made(config(**fields), rows) == [("id:k", "x/1")]
    assert made(config(version=8, **fields), rows, names_single_field=False) == [("k", "x/1")]
    assert made(config(version=8, **fields), rows, names_single_field=True) == [("id:k", "x/1")]
    with pytest.raises(Refused, match="how the keys of the table t are written"):
        key_generator(config(version=8, **fields))


def test_existing_keys_show_their_form():
    assert names_its_field(["id:1", "id:2"], "id") is True
    assert names_its_field(["1", "id"], "id") is False
    assert names_its_field([], "id") is None
    with pytest.raises(Refused, match="begin with id:"):
        names_its_field(["1", "id:2"], "id")


def test_hive_style_and_escapes():
    rows = [{"id": "k", "part": "a b/c%é:d=\x7f"}, {"id": "k", "part": None}]

    assert made(config(**{HIVE: "true", ENCODE: "true"}), rows) == [
        ("k", "part=a b%2Fc%25é%3Ad%3D%7F"),
        ("k", "part=__HIVE_DEFAULT_PARTITION__"),
    ]


def test_slashes_in_dates():
    rows = [{"id": "k", "part": datetime.date(2024, 3, 4)}]

    assert made(config(**{SLASHES_IN_DATES: "true"}), rows) == [("k", "2024/03/04")]
    extractor = "org.apache.hudi.hive.SlashEncodedDayPartitionValueExtractor"
    assert made(config(**{"hoodie.table.partition_extractor_class": extractor}), rows) == [("k", "2024/03/04")]


@pytest.mark.parametrize("path", ["a//b", "/a", "a/", "..", "a/../b", "./a", ".hoodie", ".hoodie/x", "a:b/c", "a\x00"])
def test_paths_that_are_no_folders_of_the_table_are_refused(path):
    """Keeps 3 of write/keys/key_generator."""
    with pytest.raises(UsageError, match="Row 12 has no partition"):
        key_generator(config()).keys(
            pa.RecordBatch.from_pylist([{"id": "k", "part": "fine/x:y"}, {"id": "k", "part": path}]), rows_before=10
        )


@pytest.mark.parametrize("encoded", [True, False])
def test_a_value_that_is_longer_than_a_folders_name_is_refused(encoded):
    """It counts in bytes, as the folder has them: after values are URL-encoded, and each part by itself."""
    generator = key_generator(config(**{ENCODE: "true"} if encoded else {}))
    fits, longer = ("%" * 85, "%" * 86) if encoded else ("a" * 255 + "/" + "b" * 255, "é" * 128)
    generator.keys(pa.RecordBatch.from_pylist([{"id": "k", "part": fits}]))
    rows = pa.RecordBatch.from_pylist([{"id": "k", "part": "p"}, {"id": "k", "part": longer}])
    size = 258 if encoded else 256
    with pytest.raises(UsageError, match=f"Row 12 has no partition.*has {size} bytes, and a folder's name at most 255"):
        generator.keys(rows, rows_before=10)


def test_values_as_text():
    moment = datetime.datetime(2024, 3, 4, 5, 6, 7, 123456, tzinfo=datetime.UTC)
    values = {
        "1709528767123456": moment,
        "2024-03-04": datetime.date(2024, 3, 4),
        "true": True,
        "-7": -7,
        "12.50": Decimal("12.50"),
        "1E-7": Decimal("0.0000001"),
        "0E-10": Decimal("0.0000000000"),
        "100000000000000000000": Decimal(10**20),
    }
    for text, value in values.items():
        assert made(config(), [{"id": value, "part": value}]) == [(text, text)]


def test_floats_as_text():
    """They are as Java 17 and 25 both write them."""
    values = [1.5, 0.001, 0.0001, 1e7, 1234567.0, 12345678.5, 0.1 + 0.2, -0.0, 100.0, 9007199254740991.0]
    texts = ["1.5", "0.001", "1.0E-4", "1.0E7", "1234567.0", "1.23456785E7", "0.30000000000000004", "-0.0", "100.0"]

    assert value_text(pa.array([*values, None]), "x").to_pylist() == [*texts, "9.007199254740991E15", None]
    assert value_text(pa.array([0.1, 12345678, 1e-5], pa.float32()), "x").to_pylist() == [
        "0.1",
        "1.2345678E7",
        "1.0E-5",
    ]
    for of, values in ((pa.float64(), (2.0**53, 1e-300, float("nan"), float("-inf"))), (pa.float32(), (2.0**24,))):
        for value in values:
            with pytest.raises(Unsupported, match="Releases of Java write such numbers with different digits"):
                value_text(pa.array([1.0, value], of), "x")


def test_types_without_a_known_text_are_refused():
    """Keeps of write/keys/value_text."""
    for value in (b"x", [1], {"a": 1}):
        with pytest.raises(Unsupported, match="column id cannot be part"):
            made(config(), [{"id": value, "part": "x"}])
    with pytest.raises(Unsupported, match="years 1 and 9999"):
        key_generator(config()).keys(
            pa.record_batch({"id": pa.array([3_000_000], pa.int32()).cast(pa.date32()), "part": ["x"]})
        )


def test_fields_inside_of_structs():
    assert made(config("a.b", "a.c"), [{"a": {"b": 1, "c": "x"}}, {"a": {"b": 2, "c": None}}]) == [
        ("1", "x"),
        ("2", "__HIVE_DEFAULT_PARTITION__"),
    ]


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (config(""), "no record key fields"),
        (config(_kind="CUSTOM"), "key generator CUSTOM"),
        (config(_kind="org.example.MyKeys"), "key generator org.example.MyKeys"),
        (config("a,b", _kind="SIMPLE"), "SIMPLE goes with one"),
    ],
)
def test_tables_that_are_refused(table, words):
    with pytest.raises(Refused, match=words):
        key_generator(table)


def test_the_kind_follows_from_the_fields_where_none_is_named():
    rows = [{"id": "k", "part": "x", "q": 1}]

    assert made(config(partition=""), rows) == [("k", "")]
    assert made(config(), rows) == [("k", "x")]
    assert made(config(partition="part,q"), rows) == [("id:k", "x/1")]
