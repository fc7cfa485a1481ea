"""A secondary index that knows every row's value passes; one that does not is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakeward.format.metadata.codec import metadata_codec
from lakeward.format.metadata.key import secondary_index_key
from lakeward.format.metadata.log_file import write_metadata_log
from lakeward.format.metadata.record import SecondaryIndexRecord
from lakeward.protocol.metadata.snapshot import take_metadata_snapshot
from lakeward.services.verification.check_report import CheckReport
from lakeward.services.verification.metadata_check import SampleSize, check_metadata, check_secondary_index
from lakeward.services.verification.metadata_view import view_metadata
from lakeward.storage.local import LocalStorage
from tests.clocks import SkippingClock
from tests.golden_tables import copy_golden
from tests.metadata_golden import GOLDEN, PARTITION_PROPERTY, set_property
from tests.our_reader import scan
from tests.services.verification.metadata_damage import INSTANT

NAME = "secondary_index_by_name"
VALUES = {"k1": "a2", "k2": "b", "k3": "tie", "k6": "f"}
"""Values of the column `name`; k4 and k5 are in the base file, and were deleted by a log."""


def with_secondary_index(base: Path, column: str, values: dict[str, str | None]) -> None:
    """Writes the index in one file group, with files named like Hudi's."""
    schema = take_metadata_snapshot(LocalStorage(), scan(base), clock=SkippingClock()).schema_json
    entry = metadata_codec(schema).encode(SecondaryIndexRecord())
    folder = base / ".hoodie/metadata" / NAME
    folder.mkdir()
    keys = sorted(secondary_index_key(value, key) for key, value in values.items())
    with (folder / f".secondary-index-by-name-0000-0_{INSTANT}.log.1_0-0-0").open("wb") as sink:
        write_metadata_log(sink, instant=INSTANT, schema_json=schema, entries=[(key, entry) for key in keys])
    index = base / ".hoodie/.index_defs/index.json"
    document = json.loads(index.read_bytes())
    document["indexDefinitions"][NAME] = {
        "indexName": NAME,
        "indexType": "secondary_index",
        "indexFunction": "",
        "sourceFields": [column],
        "indexOptions": {},
        "version": "V2",
    }
    index.write_text(json.dumps(document))
    partitions = [*scan(base).config.built_metadata_partitions, NAME]
    set_property(base, PARTITION_PROPERTY, ",".join(partitions))


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return copy_golden(GOLDEN, tmp_path / "table")


def check(base: Path) -> CheckReport:
    return check_metadata(LocalStorage(), lambda: scan(base), size=SampleSize(None, 1000), clock=SkippingClock())


def test_every_row_is_found_by_its_value(base: Path):
    """Rows are those that a query finds; entries that no row has any more are no problem."""
    with_secondary_index(base, "name", VALUES | {"k4": "of a row that was deleted"})
    report = check(base)
    assert report.problems == report.notes == ()
    assert [(part.name, part.checked) for part in report.checks][-1] == (NAME, 6)


def test_a_file_that_is_cleaned_meanwhile_is_passed_over(base: Path):
    """Keeps 3 of services/verification/metadata_check: a value that the index lacks misleads no reader once its
    file is gone."""
    with_secondary_index(base, "name", VALUES | {"k1": "a"})
    view = view_metadata(LocalStorage(), scan(base), SkippingClock())
    sample = dict.fromkeys(view.base_files, ("k1",))
    assert check_secondary_index(view, NAME, sample)
    next((base / "p").glob("*.parquet")).unlink()
    assert check_secondary_index(view, NAME, sample) == []


def test_a_value_that_the_index_does_not_know(base: Path):
    """k1 is there under what it was before: queries for what it is now miss it."""
    with_secondary_index(base, "name", VALUES | {"k1": "a"})
    (problem,) = check(base).problems
    assert (problem.check, problem.subject) == (NAME, "k1")
    assert "name = 'a2', and the index does not know it" in problem.what
    assert f"metadata drop TABLE {NAME}" in problem.remedy


def test_numbers_are_written_out(base: Path):
    """Java has them so: of four rows three are known."""
    with_secondary_index(base, "ts", {"k1": "11", "k2": "10", "k3": "10"})
    (problem,) = check(base).problems
    assert problem.subject == "k6"


def test_a_key_is_escaped_as_hudi_does():
    """The value, the separator and the record key can be told apart again."""
    assert secondary_index_key("a$b\\", "k$") == "a\\$b\\\\$k\\$"
    assert secondary_index_key(None, "k") == "\0$k"
    assert secondary_index_key("\0", "k") == "\\\0$k"
