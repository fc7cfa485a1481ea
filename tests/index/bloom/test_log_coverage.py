"""How many bytes of logs say their keys, by tails and by the cache of filters."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from lakeward.index.bloom.log_coverage import look_at_logs
from lakeward.services.indexing.run.tails import choose_tails
from lakeward.storage.local import LocalStorage
from tests.index.bloom.caches import rebuilt
from tests.our_reader import scan
from tests.write.writing import new_table, write


class LogsOpened(LocalStorage):
    """Counts the logs that are opened."""

    opened = 0

    def open_input(self, path: str) -> BinaryIO:
        self.opened += ".log." in path
        return super().open_input(path)


def test_each_log_counts_once(tmp_path: Path) -> None:
    """A log without a tail, one that the cache has, two with a tail, of which the cache has one. Keeps 1 and 2 of
    index/bloom/log_coverage."""
    base, storage = new_table(tmp_path / "t"), LogsOpened()
    write(base, [(f"k{number}", 1, "p", "a") for number in range(5)])
    write(base, [("k1", 2, "p", "b")])
    assert look_at_logs(storage, scan(base)).coverage.with_tail == storage.opened == 0
    choose_tails(storage, scan(base), are_written=True)
    write(base, [("k2", 2, "p", "b")])
    rebuilt(scan(base), with_logs=True)
    write(base, [("k3", 2, "p", "b")])
    choose_tails(storage, scan(base), are_written=False)
    write(base, [("k4", 2, "p", "b")])
    snapshot = scan(base)
    sizes = [log.size for log in snapshot.file_groups[0].slices[0].row_logs]
    seen = look_at_logs(storage, snapshot)
    assert seen.coverage.by_kind == {"tail": sizes[1] + sizes[2], "cache": sizes[0], "nothing": sizes[3]}
    assert (seen.coverage.logs, seen.coverage.with_tail, seen.coverage.log_bytes) == (4, 2, sum(sizes))
    assert seen.groups_with_tails(snapshot) == {snapshot.file_groups[0].slices[0].group_id}
    some = look_at_logs(storage, snapshot, {name: seen.tails[name] for name in list(seen.tails)[:1]}, opened_max=1)
    assert some.coverage.with_tail == 1 and look_at_logs(storage, snapshot, some.tails) == seen
