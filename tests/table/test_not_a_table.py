"""A place that is no table is reported as what it is, with what to give instead; exit 2."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lakeward.base.errors import NoCredentials, NotATable
from lakeward.storage.local import LocalStorage
from lakeward.table.not_a_table import check_is_table
from tests.golden_tables import copy_golden


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    copy_golden("v9", tmp_path / "table")
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "iceberg/metadata").mkdir(parents=True)
    (tmp_path / "iceberg/metadata/v1.metadata.json").touch()
    (tmp_path / "delta/_delta_log").mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize(
    ("place", "what", "remedy"),
    [
        ("nothing", "does not exist", "Check how it is written."),
        ("file", "is a file", "the folder that contains .hoodie"),
        ("iceberg", "is an Iceberg table", "Lakeward services Apache Hudi tables"),
        ("delta", "is a Delta table", "Lakeward services Apache Hudi tables"),
        ("empty", "holds no Hudi table", "the folder that contains .hoodie"),
        ("table/p", "is a folder inside of a table", "/table, and for this partition alone --partition p."),
        ("table/.hoodie", "is a folder inside of a table", "base path, "),
        ("table/p/.hoodie_partition_metadata", "is a file", "the table that it is in, "),
    ],
)
def test_what_is_no_table(lake: Path, place: str, what: str, remedy: str) -> None:
    """The message names what is there, and the remedy is one for that."""
    path = str(lake / place)
    with pytest.raises(NotATable) as raised:
        check_is_table(LocalStorage(path), path)
    assert raised.value.exit_code == 2
    assert what in raised.value.what and remedy in raised.value.remedy


class Forbidden(LocalStorage):
    """A storage in which a folder may not be read: tests may run as root, which may read all."""

    def list(self, folder: str) -> list:  # type: ignore[type-arg]
        raise PermissionError(13, os.strerror(13), folder)


def test_what_may_not_be_read(lake: Path) -> None:
    """A folder that may not be read is named, with the users who may be meant."""
    with pytest.raises(NotATable, match=r"may not be read.*denied at .*/table.*user of the table's writers"):
        check_is_table(Forbidden(), str(lake / "table"))


class Refusing(LocalStorage):
    """An object store's client that answers with one error."""

    def __init__(self, error: OSError) -> None:
        super().__init__()
        self._error = error

    def list(self, folder: str) -> list:  # type: ignore[type-arg]
        raise self._error


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (PermissionError(13, "Forbidden"), "does not let us list s3://lake/orders. It answered: Forbidden. Check cred"),
        (OSError(5, "redirect: an incorrectly configured region"), "configured region. Check credentials and region."),
        (
            OSError(5, "PUT http://169.254.169.254/latest failed"),
            "no credentials for s3:.* gives it no role",
        ),
    ],
)
def test_what_an_object_store_refuses(error: OSError, shown: str) -> None:
    """Credentials and region are what to look at, and the variables that say them are named."""
    with pytest.raises(NoCredentials, match=shown) as raised:
        check_is_table(Refusing(error), "s3://lake/orders")
    assert "AWS_REGION" in raised.value.remedy and raised.value.exit_code == 2


def test_a_table_is_one(lake: Path) -> None:
    """A table raises nothing."""
    check_is_table(LocalStorage(), str(lake / "table"))
