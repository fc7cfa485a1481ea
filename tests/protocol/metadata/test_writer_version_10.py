"""A delta commit into a metadata table of version 10: what it says is what it says on version 9, in native files."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.base.errors import BrokenFile
from lakeward.format.file_name import HFILE
from lakeward.format.metadata.record import MetadataRecord
from lakeward.protocol.attempts.staged_commit import named_files
from lakeward.protocol.metadata.changes import DeletedFile
from lakeward.protocol.metadata.delta_commit import COMMIT_FILE, DeltaCommit
from lakeward.protocol.metadata.key_changes import WriteChanges
from lakeward.storage.local import LocalStorage
from lakeward.table.metadata.metadata_reader import MetadataReader
from lakeward.table.metadata.metadata_table import load_metadata_table
from tests.clocks import SkippingClock
from tests.golden_tables import copy_golden
from tests.metadata_golden import GOLDEN, METADATA
from tests.our_reader import scan
from tests.protocol.metadata.test_key_changes import FILE_ID, changed
from tests.protocol.metadata.test_metadata_writer import INSTANT, Desk
from tests.version_10 import set_version


def desk(base: Path, version: int) -> Desk:
    """The golden table, upgraded where it says so: its metadata table has inline logs then."""
    copy_golden(GOLDEN, base)
    for table in (base, base / METADATA):
        set_version(table, version)
    return Desk(base)


def publish(of: Desk, *, gone: bool = False) -> None:
    """A write of rows with keys that come and go, or a clean."""
    snapshot = scan(of.base)
    if gone:
        (group,) = snapshot.file_groups
        names = [log.name.text for each in group.slices for log in each.log_files]
        deleted = [DeletedFile("p", name) for name in names[:1]]
        of.commit.prepare(snapshot, deleted=deleted)
        of.publish(of.commit.stage(snapshot, deleted=deleted, fence=lambda: None))
        return
    keys = changed(of, {"a": FILE_ID, "b": FILE_ID, "gone": None, "k0": None})
    write = WriteChanges(snapshot.schema or "", keys=(keys,))
    of.commit.prepare(snapshot, of.files, write=write)
    of.publish(of.commit.stage(snapshot, of.files, write=write, fence=lambda: None))


def records(base: Path) -> dict[str, dict[str, MetadataRecord]]:
    """Everything that readers of the metadata table find, by partition and key."""
    storage, snapshot = LocalStorage(), scan(base)
    table = load_metadata_table(storage, str(base), snapshot.config, snapshot.timeline, clock=SkippingClock())
    reader = MetadataReader(storage, table)
    found = {partition: dict(reader.scan(partition)) for partition in table.slices}
    for partition, of in found.items():
        assert reader.lookup(partition, of) == of
    return found


@pytest.mark.parametrize("gone", [False, True], ids=["write", "clean"])
def test_records_are_those_of_version_9(tmp_path: Path, gone: bool) -> None:
    """Over the inline logs of before the upgrade, in every partition, deletions too."""
    of_9, of_10 = desk(tmp_path / "9", 9), desk(tmp_path / "10", 10)
    before = records(of_9.base)
    assert records(of_10.base) == before
    for of in (of_9, of_10):
        publish(of, gone=gone)
    assert records(of_9.base) == records(of_10.base) != before
    assert any(name.endswith(".deletes.hfile") for name in of_10.of_instant())
    named = [name for name in of_10.of_instant() if "commit" not in name]
    assert named and all(name.endswith((".log.hfile", ".deletes.hfile")) for name in named)
    assert not any(name.endswith(".hfile") for name in of_9.of_instant())


def test_a_native_delta_commit_is_rolled_back(tmp_path: Path) -> None:
    """Its files go with it, and what was there before is there."""
    of = desk(tmp_path / "10", 10)
    before = records(of.base)
    publish(of)
    assert DeltaCommit(LocalStorage(), str(of.base), INSTANT, SkippingClock()).roll_back(by=8, fence=lambda: None)
    assert of.of_instant() == [] and records(of.base) == before


def test_what_a_staged_commit_names_is_native_where_the_table_is(tmp_path: Path) -> None:
    """A commit is rolled forward by it in an object store."""
    of = desk(tmp_path / "10", 10)
    staged = of.stage()
    assert named_files(of.storage, str(of.folder / COMMIT_FILE), INSTANT, extension=HFILE, native=True) == staged.logs
    with pytest.raises(BrokenFile):
        named_files(of.storage, str(of.folder / COMMIT_FILE), INSTANT, extension=HFILE)


def test_a_torn_native_log_is_named(tmp_path: Path) -> None:
    """Nothing of the partition is read beside it."""
    of = desk(tmp_path / "10", 10)
    publish(of)
    (path,) = (of.base / METADATA / "files").glob(f"*_{INSTANT}_1.log.hfile")
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(BrokenFile, match=path.name):
        records(of.base)
