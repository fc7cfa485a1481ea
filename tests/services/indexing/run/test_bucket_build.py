"""The files of a record index that several tasks make are those that one makes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from lakeward.engine.dispatch.in_process import InProcessDispatcher
from lakeward.index.index_type import IndexType
from lakeward.index.record.record_manifest import open_manifest
from lakeward.protocol.index.record_index_writer import RecordIndexWriter
from lakeward.services.indexing.run.bucket_build import TASKS_MAX, BucketSpec, bucket_specs
from lakeward.services.indexing.run.index_build import build_index
from lakeward.storage.local import LocalStorage
from tests.index.builds import in_process
from tests.index.following import places
from tests.index.record.reopened_record_index import new_record_index
from tests.our_reader import scan
from tests.write.writing import new_table, write

STORAGE = LocalStorage()
KEYS = [f"k{number:03}" for number in range(300)]


class Several(InProcessDispatcher):
    """Says that it does three tasks at once."""

    parallelism = 3


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of three partitions, with keys that two of them have."""
    base = new_table(tmp_path_factory.mktemp("made") / "t")
    write(base, [(key, 1, "abc"[number % 3], "x") for number, key in enumerate(KEYS)])
    again = [(key, 2, "c", "y") for key in KEYS[::7]]
    write(base, again, index=IndexType.SIMPLE, moves_rows=False)
    return base


def built(base: Path, folder: Path, dispatcher: InProcessDispatcher, *, buckets: int) -> RecordIndexWriter:
    new_record_index(folder, buckets=buckets)
    opens = partial(RecordIndexWriter.of, STORAGE, folder=str(folder))
    work = replace(in_process(base), choose_dispatcher=lambda size: dispatcher)
    done = build_index(STORAGE, opens, lambda: scan(base), work)
    assert done.entries == len(KEYS)
    return opens(scan(base))


@pytest.mark.parametrize("buckets", [1, 2, 7])
def test_several_tasks_make_what_one_makes(base: Path, tmp_path: Path, buckets: int) -> None:
    """Keeps 1 and 2 of services/indexing/run/bucket_build: each key is there once, in the last of its file groups, and
    each bucket has one file."""
    one = built(base, tmp_path / "one", InProcessDispatcher(), buckets=buckets)
    several = built(base, tmp_path / "several", Several(), buckets=buckets)
    found = places(several, KEYS)
    assert found == places(one, KEYS) and len(found) == len(KEYS)
    assert {place[0] for key, place in found if key in KEYS[::7]} == {"c"}
    files = list((tmp_path / "several" / "data").glob("*.hfile"))
    assert set(Counter(file.name.split("_")[0] for file in files)) == {f"0-{bucket}-0" for bucket in range(buckets)}
    assert len(files) == buckets


def test_tasks_divide_the_buckets(base: Path, tmp_path: Path) -> None:
    """No more tasks than buckets, nor than are worth it, since each reads all checkpoints."""
    index = built(base, tmp_path / "index", InProcessDispatcher(), buckets=40)
    _, manifest = open_manifest(STORAGE, index.folder)
    spec = BucketSpec(index.folder, manifest, "", (), "1", "1", part=0, parts=1)
    for tasks, parts in ((1, 1), (3, 3), (100, TASKS_MAX)):
        specs = bucket_specs(spec, tasks)
        assert [(each.part, each.parts) for each in specs] == [(part, parts) for part in range(parts)]
