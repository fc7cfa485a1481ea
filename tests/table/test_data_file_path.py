"""Which file of a table a path or a name means that an operator passes."""

from __future__ import annotations

import pytest

from lakeward.base.errors import LakewardError
from lakeward.table.data_file_path import find_path
from tests.services.clean.plan.clean_cases import path_of, read_table


@pytest.mark.parametrize(
    "given", ["/t/p/{name}", "file:///t/p/{name}", "file:/t/p/{name}", "./p/{name}", "p/{name}", "{name}"]
)
def test_a_file_is_found_by_any_of_its_names(given: str) -> None:
    """Whole path, path below the table, or name alone."""
    snapshot = read_table("done commit 10\ngroup a 10").snapshot()
    path = path_of("a@10")
    found = find_path(given.format(name=path[2:]), base_path="/t", snapshot=snapshot)
    assert found == path


@pytest.mark.parametrize(
    ("given", "remedy"),
    [
        ("/other/p/{name}", "Pass the table that it is of"),
        ("s3://other/p/{name}", "Pass the table that it is of"),
        (".hoodie/timeline/20260101000000000_20260101000000001.commit", "Pass --instant"),
        ("p/data.csv", "Pass a data file of the table"),
        ("p/../{name}", "nothing was opened"),
        ("{twice}", "Pass the path of the one"),
    ],
)
def test_a_path_that_is_no_files_of_the_table(given: str, remedy: str) -> None:
    """The error names what to pass instead."""
    snapshot = read_table("done commit 10\ngroup a 10\ngroup q/b 10\ngroup b 10").snapshot()
    names = {"name": path_of("a@10")[2:], "twice": path_of("b@10")[2:]}
    with pytest.raises(LakewardError) as raised:
        find_path(given.format(**names), base_path="/t", snapshot=snapshot)
    assert remedy in str(raised.value)
