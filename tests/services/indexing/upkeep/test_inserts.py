"""The daemon looks through commits for keys that a writer put into base files although logs have them."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from lakeward.index.index_type import IndexType
from lakeward.index.log_inserts import LogInserts, read_log_inserts
from lakeward.services.indexing.run.insert_choice import let_into_logs
from tests.our_reader import scan
from tests.services.indexing.upkeep.test_comparisons import without_writers
from tests.services.indexing.upkeep.test_updates import Kept
from tests.write.own_record_index import STORAGE, opened
from tests.write.test_log_inserts import unseen
from tests.write.writing import Row, write

pytestmark = pytest.mark.slow


def said_of(kept: Kept) -> LogInserts:
    return read_log_inserts(STORAGE, str(kept.base))


def into_logs(kept: Kept, *rows: Row, operation: str = "upsert") -> None:
    by = {"index": IndexType.RECORD, "open_index": partial(opened, kept.base)}
    write(kept.base, rows, operation, clock=kept.serving.clock, **by)


def newest(kept: Kept) -> str | None:
    return scan(kept.base).timeline.completed_writes[-1].completion_time


def test_a_doubled_key_is_reported_until_it_is_put_right(tmp_path: Path) -> None:
    """Keeps 1 and 2 of services/indexing/upkeep/inserts: by a job that fails, by name and with the remedy, while the
    record index goes on; and nothing is looked through where nothing is said of the table's writers."""
    kept = Kept(tmp_path)
    let_into_logs(STORAGE, scan(kept.base))
    before = said_of(kept)
    into_logs(kept, ("k6", 5, "p", "log"), ("k7", 5, "p", "log"))
    kept.serving.run(20.0)
    assert said_of(kept) == before, "a commit of logs alone puts no key into a base file"
    with unseen(kept.base):
        kept.write(("k6", 6, "p", "twice"), ("k7", 6, "p", "twice"), ("k8", 6, "p", "new"))
    kept.serving.run(90.0)
    assert kept.serving.index_memory().doubled_keys == 2
    assert said_of(kept).through != newest(kept)
    events = [each.text for each in kept.serving.store.events.latest(str(kept.base), 50)]
    assert any("doubled 2 keys" in each and "'k7'" in each and "insert_overwrite" in each for each in events), events
    assert kept.jobs("refused") >= 1
    kept.serving.run(600.0, step=30.0)
    assert kept.index.behind is not None and kept.index.behind.commits == 0

    rows = [(f"k{number}", 7, "p", "once") for number in (1, 2, 6, 7, 8)]
    into_logs(kept, *rows, operation="insert_overwrite")
    kept.serving.run(900.0, step=30.0)
    assert said_of(kept).through == newest(kept)
    assert kept.serving.index_memory().doubled_keys == 0
    without_writers(kept)
    with unseen(kept.base):
        kept.write(("k9", 8, "q", "new"))
    kept.serving.run(60.0)
    assert said_of(kept).through != newest(kept)
