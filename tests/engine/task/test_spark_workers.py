"""The process from which a local Spark forks its workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.engine.task.spark_workers import archives_of_spark


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder with PySpark as `pip` installs it, archives within, and with Py4J."""
    for package in ("pyspark", "py4j"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
    return tmp_path


def test_what_is_installed_as_files_is_not_read_from_archives(site: Path) -> None:
    """Workers read the list of each archive again before each task; archives of others stay."""
    archives = [f"{site}/pyspark/python/lib/pyspark.zip", f"{site}/pyspark/jars/spark-core.jar"]
    assert archives_of_spark([*archives, "/elsewhere/job.zip", f"{site}/pyspark/python", str(site)]) == archives


def test_another_pyspark_is_left_where_it_is(site: Path) -> None:
    """Spark's own folder may have another version than what is installed, or no files at all."""
    path = ["/opt/spark/python/lib/pyspark.zip", "/opt/spark/python/lib/py4j-src.zip"]
    assert archives_of_spark([*path, str(site)]) == []
    assert archives_of_spark([f"{site}/pyspark/python/lib/pyspark.zip"]) == []
    (site / "py4j" / "__init__.py").unlink()
    (site / "py4j").rmdir()
    assert archives_of_spark([f"{site}/pyspark/python/lib/pyspark.zip", str(site)]) == []
