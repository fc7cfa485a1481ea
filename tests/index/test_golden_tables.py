"""An index over tables of released Hudi, from their first commit on: of each kind of file that it writes."""

from __future__ import annotations

import pytest

from tests.golden_tables import copy_golden
from tests.index.following import memory_index, places, shown, truth, update
from tests.version_10 import made_native

NATIVE = "native"
"""That of version 9 as one of version 10."""
KINDS = ["v8", "v9", "v9_metadata", NATIVE, "hfile", "keyless", "operations", "in_part", "evolved", "dropped"]


@pytest.mark.parametrize("golden", KINDS)
def test_keys_of_hudis_tables(tmp_path, golden):
    """Each key is where its row is, before an update and after it: Avro, Parquet, HFile and native logs, partial rows,
    rows without keys, operations, and deletes of each kind."""
    base = copy_golden("v9" if golden == NATIVE else golden, tmp_path / "t")
    if golden == NATIVE:
        made_native(base)
    index = memory_index(base)
    rows = truth(base)
    keys = sorted({key for key, _ in rows} | {"k1", "k5", "k9", "1", "nowhere"})

    assert rows and shown(base, index, keys) == rows
    assert update(base, index).commits
    assert places(index, keys) == shown(base, index, keys) == rows
