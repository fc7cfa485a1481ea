"""Names that keep Hudi's readers from loading a table; `tests/interop/test_write_input.py` asks Hudi of the same."""

import json

import pytest

from lakeward.format.avro.column_names import BadName, NameFault, find_bad_names, is_loadable

LEGAL = ("order_id", "_x", "größe", "日本", "x٣", "x_ª", "ı", "int", "record", "_metadata", "_hoodie_is_deleted")
ILLEGAL = ("order id", "a.b", "1abc", "", "a-b", "a$b", "x²", "٣x", "😀", "𝔘", "e\u0301", "x\u200d", "a`b", "Ⅷ")


def schema_of(*names, inner=None):
    fields = [{"name": name, "type": ["null", inner or "string"], "default": None} for name in names]
    return {"type": "record", "name": "r", "fields": fields}


def found_in(schema):
    return find_bad_names(json.dumps(schema))


@pytest.mark.parametrize("name", LEGAL)
def test_names_that_hudi_takes_are_not_found(name):
    """Keeps 1 of format/avro/column_names."""
    assert found_in(schema_of("i", name)) == ()


@pytest.mark.parametrize("name", ILLEGAL)
def test_names_that_hudi_cannot_load_are_found_at_every_level(name):
    """Keeps 2 of format/avro/column_names: in structs, lists and maps, with the path to them."""
    inner = schema_of(name)
    for path, schema in (
        (name, inner),
        (f"s.{name}", schema_of("s", inner=inner)),
        (f"s.{name}", schema_of("s", inner={"type": "array", "items": ["null", inner]})),
        (f"s.{name}", schema_of("s", inner={"type": "map", "values": inner})),
    ):
        (found,) = found_in(schema)
        assert (found.path, found.fault) == (path, NameFault.NO_NAME)
        assert not is_loadable(json.dumps(schema))


@pytest.mark.parametrize(
    ("schema", "path", "why"),
    [
        (schema_of("order id"), "order id", "In Hudi's schemas a name has letters, digits and _, and this one has ' '"),
        (schema_of("1a"), "1a", "In Hudi's schemas a name does not begin with a digit"),
        (schema_of(""), "", "Hudi's schemas have no empty names"),
        (schema_of("v", "V"), "V", "There is v, too, which differs in case alone: to Spark the two are one column"),
        (
            schema_of("_Hoodie_Commit_Time"),
            "_Hoodie_Commit_Time",
            "There is _hoodie_commit_time, too, which differs in case alone: to Spark the two are one column",
        ),
        (
            schema_of("s", inner={**schema_of("x"), "name": "a b"}),
            "s",
            "Its type is named 'a b'. In Hudi's schemas a name has letters, digits and _, and this one has ' '",
        ),
    ],
)
def test_what_is_said(schema, path, why):
    """Which two names are alike, and which character is none of a name."""
    assert [(found.path, found.why) for found in found_in(schema)] == [(path, why)]


def test_levels_have_names_of_their_own():
    """Only names of one record are alike; and inside of a struct Hudi's own names are like others."""
    inner = schema_of("V", "_hoodie_operation", "_tmp_metadata_row_index", "_hoodie_commit_time")
    assert found_in(schema_of("v", inner=inner)) == ()


def test_what_hudi_reserves():
    """The kind of change does not keep it from loading the table."""
    operation, row = found_in(schema_of("_hoodie_operation", "_tmp_metadata_row_index"))
    assert operation.fault is row.fault is NameFault.RESERVED
    assert operation.is_loadable and not row.is_loadable


@pytest.mark.parametrize("text", ["", "foo", '"string"', '{"type":"record","name":"r","fields":[]}', "[" * 10_000])
def test_what_is_no_record_with_columns_is_not_loadable(text):
    """It has no names to be found."""
    assert not is_loadable(text)
    assert find_bad_names(text) == ()


def test_a_bad_name_is_one_by_its_path():
    """A table's own can be known from new ones."""
    assert found_in(schema_of("a b")) == (BadName("a b", NameFault.NO_NAME, found_in(schema_of("a b"))[0].why),)
