"""A hash of the operator's own: found by its entry point, known again by two test keys, refused where it is not."""

from __future__ import annotations

import importlib
import itertools
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from lakeward.base.errors import Unsupported, UsageError
from lakeward.cli.main import run
from lakeward.index.record.bucket_hash import bucket_numbers
from lakeward.index.record.own_hash import _checked, fingerprinted
from tests.golden_tables import copy_golden

_NUMBERS = itertools.count()
LENGTHS = (
    "import numpy as np\ndef of(keys):\n    return np.array([len(key) - 9 for key in keys.to_pylist()], np.int64)\n"
)
CRC = """
import zlib
import pyarrow as pa
def of(keys):
    return pa.array([zlib.crc32(key.encode()) for key in keys.to_pylist()])
"""
PLACES = "import numpy as np\ndef of(keys):\n    return np.arange(len(keys))\n"
FRACTIONS = "import numpy as np\ndef of(keys):\n    return np.zeros(len(keys))\n"

Install = Callable[[str], str]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs a package with this source. Returns the name of its hash."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def installed(source: str) -> str:
        name = f"spread{next(_NUMBERS)}"
        about = tmp_path / f"{name}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(f"[lakeward.record_hashes]\n{name} = {name}_code:of\n")
        (tmp_path / f"{name}_code.py").write_text(source)
        importlib.invalidate_caches()
        return f"own:{name}"

    return installed


@pytest.mark.parametrize("source", [LENGTHS, CRC])
def test_buckets_are_the_floor_mod(install: Install, source: str) -> None:
    """Also of numbers below zero."""
    name = fingerprinted(install(source))
    keys = ["a", "bb", "key-0000000042", "Zürich"]
    found = bucket_numbers(pa.array(keys), hash_name=name, count=7)
    module = importlib.import_module(name.split(":")[1] + "_code")
    assert found.tolist() == [int(each) % 7 for each in module.of(pa.array(keys)).tolist()]


def test_another_answer_is_refused(install: Install) -> None:
    """Keeps of index/record/own_hash: what was made with another release of the function is not asked."""
    name, other = fingerprinted(install(LENGTHS)), fingerprinted(install(CRC))
    forged = ":".join((*name.split(":")[:2], *other.split(":")[2:]))
    with pytest.raises(Unsupported, match="answers otherwise"):
        bucket_numbers(pa.array(["a"]), hash_name=forged, count=2)


def test_what_is_not_installed_is_refused(install: Install) -> None:
    with pytest.raises(Unsupported, match="not installed here"):
        bucket_numbers(pa.array(["a"]), hash_name="own:gone:1:2", count=2)
    name = install(LENGTHS)
    with pytest.raises(UsageError) as raised:
        fingerprinted(name[:-1] + "x" + name[-1])
    assert "Did you mean spread" in str(raised.value.why)


@pytest.mark.parametrize(("source", "said"), [(PLACES, "is no hash of a key"), (FRACTIONS, "no whole number")])
def test_what_is_no_hash_is_refused(install: Install, source: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        fingerprinted(install(source))


def test_an_index_with_a_hash_of_ones_own(install: Install, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It is built, found again and held against the rows; without the package nothing is looked up."""
    table = str(copy_golden("v9", tmp_path / "table"))
    name = install(CRC)
    record = ["--type", "record", "--hash", name, "--buckets", "4"]
    assert run(["index", "build", table, *record]) == 0
    assert run(["index", "verify", table, "--type", "record"]) == 0
    (about,) = tmp_path.glob(f"{name.removeprefix('own:')}-*.dist-info")
    shutil.rmtree(about)
    _checked.cache_clear()
    importlib.invalidate_caches()
    capfd.readouterr()
    assert run(["index", "verify", table, "--type", "record"]) != 0
    assert f"the hash {name}:" in capfd.readouterr().err


def test_a_package_that_cannot_be_loaded(install: Install) -> None:
    with pytest.raises(UsageError, match="cannot be loaded"):
        fingerprinted(install("import missing_module_of_a_test\n"))
