"""Lakeward keeps no indexes of tables of version 6: every verb but `drop` refuses them, and writes nothing."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from lakeward.base.errors import BrokenFile, Refused
from lakeward.cli.main import run
from lakeward.index.external.external_index import ExternalIndex
from lakeward.index.external.rate_limit import RateLimit
from lakeward.index.record.created_with import KeyScope
from lakeward.index.record.record_manifest import RECORD_FORM, RecordManifest
from lakeward.index.record.record_options import RecordOptions
from lakeward.services.indexing.run.filter_cache_update import update_filter_cache
from lakeward.storage.local import LocalStorage
from tests.clocks import SkippingClock
from tests.golden_tables import copy_golden
from tests.index.external.memory_entries import MemoryEntries
from tests.index.record.reopened_record_index import ReopenedRecordIndex, new_record_index
from tests.our_reader import scan

pytestmark = pytest.mark.slow

STORAGE = LocalStorage()
REFUSED = "Lakeward keeps no indexes of tables of version 6."


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return copy_golden("v6", tmp_path / "table")


def files(base: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in base.rglob("*") if path.is_file()}


def with_index(base: Path) -> Path:
    """The index of an earlier build of Lakeward."""
    folder = Path(RecordOptions().folder(str(base)))
    new_record_index(folder, buckets=1)
    ReopenedRecordIndex(folder, lambda instants: {}).build("1", [], completed="1")
    return folder


@pytest.mark.parametrize(
    "words",
    [
        ["build", "--type", "record"],
        ["build", "--type", "record", "--dry-run"],
        ["build", "--type", "bloom"],
        ["migrate", "--from", "simple", "--to", "record"],
        ["tee", "--primary", "simple", "--shadow", "bloom"],
        ["changes", "--from", "20200101000000000"],
    ],
    ids=" ".join,
)
def test_nothing_is_made(base: Path, words: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    """It is refused before anything is written, and the remedy is named."""
    before = files(base)
    assert run(["index", words[0], str(base), *words[1:]]) == 2
    shown = capfd.readouterr().err
    assert shown == (
        f"LW-REFUSED: {REFUSED}\nThe timeline does not say when a commit completed, and writes share log files, so "
        "that what each commit did to keys is unknown.\nUpgrade the table with Hudi (CALL upgrade_table in its Spark "
        "SQL), then build the index. Until then use simple, bloom or metadata; `lakeward index drop` removes an index "
        "that is there.\n"
    )
    assert files(base) == before


@pytest.mark.parametrize(
    "words",
    [
        ["build", "--type", "record"],
        ["update", "--type", "record"],
        ["rebuild", "--type", "record"],
        ["lookup", "k1", "--type", "record"],
        ["verify", "--type", "record"],
        ["migrate", "--from", "simple", "--to", "record"],
        ["compare", "--type", "simple", "--type", "record"],
        ["lookup", "k1", "--type", "record", "--as-of", "20261121043712577"],
    ],
    ids=" ".join,
)
def test_an_index_that_is_there_is_not_used(base: Path, words: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    """Each verb but `drop` refuses it, and leaves it as it was."""
    with_index(base)
    before = files(base)
    assert run(["index", words[0], str(base), *words[1:]]) == 2
    assert REFUSED in capfd.readouterr().err
    assert files(base) == before


def test_an_index_that_is_there_is_listed_and_dropped(base: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = with_index(base)
    assert run(["index", "list", str(base)]) == 0
    assert "Lakeward keeps no indexes" in " ".join(capfd.readouterr().out.split())
    assert run(["index", "drop", str(base), "--type", "record"]) == 0
    assert not folder.exists()


@pytest.mark.parametrize(
    "use",
    [
        lambda base: ExternalIndex.of(
            MemoryEntries(is_global=True), STORAGE, scan(base), limit=RateLimit(None, clock=SkippingClock())
        ),
        lambda base: update_filter_cache(STORAGE, scan(base), on_file=lambda done, of: None),
    ],
    ids=["postgres", "bloom"],
)
def test_what_is_elsewhere_is_not_used_either(base: Path, use: Callable[[Path], object]) -> None:
    """An index in a database is not opened, and the cache of filters not brought up to date."""
    with pytest.raises(Refused, match=REFUSED):
        use(base)


def test_hudis_own_and_the_files_are_read(base: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Lookups by keys of base files go on."""
    assert run(["index", "lookup", str(base), "k1", "--type", "simple"]) == 0
    assert run(["index", "lookup", str(base), "k1", "--type", "bloom", "--with-logs"]) == 0


def test_an_index_of_an_upgraded_table_is_built_again(tmp_path: Path) -> None:
    """What an earlier build kept while the table was of version 6 does not say which commits it has: it is
    broken, and the remedy is to drop and build it."""
    encoded = RECORD_FORM.encode(RecordManifest(0, KeyScope.GLOBAL))
    document = dict(RECORD_FORM.document_of(RecordManifest(0, KeyScope.GLOBAL))) | {"seen": {"writes": ["1"]}}
    assert RECORD_FORM.decode(encoded, path="m", number=0).number == 0
    with pytest.raises(BrokenFile) as raised:
        RECORD_FORM.decode(_encoded(document), path="m", number=0)
    assert "version 6" in str(raised.value) and "lakeward index drop" in raised.value.remedy


def _encoded(document: dict[str, object]) -> bytes:
    text = json.dumps({"version": RECORD_FORM.version, **document}, sort_keys=True, separators=(",", ":")).encode()
    return b'{"crc32": %d, "manifest": %s}\n' % (zlib.crc32(text), text)
