"""Writes of Hudi's on a golden table, made by hand: begun, inflight, completed, dead, rolled back."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import UTC
from pathlib import Path

from lakeward.base.clock import Clock
from lakeward.format.avro.container import write_record
from lakeward.format.timeline.commit_metadata import CommitMetadata, WriteStat, write_commit_metadata
from lakeward.format.timeline.instant import format_instant_time
from lakeward.protocol.attempts.heartbeat_line import heartbeat_path

ROLLBACK_PLAN = {
    "type": "record",
    "name": "HoodieRollbackPlan",
    "fields": [
        {
            "name": "instantToRollback",
            "type": {
                "type": "record",
                "name": "HoodieInstantInfo",
                "fields": [{"name": "commitTime", "type": "string"}, {"name": "action", "type": "string"}],
            },
        },
        {
            "name": "RollbackRequests",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "HoodieRollbackRequest",
                    "fields": [
                        {"name": "partitionPath", "type": "string"},
                        {"name": "fileId", "type": ["null", "string"]},
                        {"name": "filesToBeDeleted", "type": {"type": "array", "items": "string"}},
                    ],
                },
            },
        },
    ],
}


class HudiWrite:
    """One write, as the files of its writer show it."""

    def __init__(self, base: Path, clock: Clock, *, ago: float = 0.0, heartbeat: bool = True) -> None:
        self._base, self._clock = base, clock
        self.began = clock.now() - ago
        self.instant = format_instant_time(int(self.began * 1000), UTC)
        if heartbeat:
            self.heartbeat.parent.mkdir(exist_ok=True)
            self.heartbeat.touch()
        self._create("deltacommit.requested", b"")

    @property
    def heartbeat(self) -> Path:
        return Path(heartbeat_path(str(self._base), self.instant))

    def inflight(self, *partitions: str) -> HudiWrite:
        """With what it says of the partitions that it touches, if it does."""
        stats = {each: (WriteStat(file_id="", path=None, partition_path=each, num_inserts=1),) for each in partitions}
        profile = CommitMetadata(partition_to_write_stats=stats, compacted=False, operation_type="UPSERT")
        self._create("deltacommit.inflight", write_commit_metadata(profile) if partitions else b"")
        return self

    def complete(self) -> None:
        metadata = CommitMetadata(partition_to_write_stats={}, compacted=False, operation_type="UPSERT")
        completed = format_instant_time(int(self._clock.now() * 1000), UTC)
        self._create("deltacommit", write_commit_metadata(metadata), completed=f"_{completed}")
        self.heartbeat.unlink()

    @property
    def _timeline(self) -> Path:
        return self._base / ".hoodie" / "timeline"

    def _create(self, what: str, content: bytes, *, completed: str = "") -> None:
        path = self._timeline / f"{self.instant}{completed}.{what}"
        path.write_bytes(content)
        if not what.endswith("inflight"):
            at = self._clock.now() if completed else self.began
            os.utime(path, (at, at))


def roll_back(base: Path, clock: Clock, write: str, *, files: Iterable[tuple[str, str | None, str]]) -> None:
    """A completed rollback of a write, with the partition, the file id and the path of each file that it took away."""
    rollback = format_instant_time(int(clock.now() * 1000), UTC)
    requests = [
        {"partitionPath": partition, "fileId": file_id, "filesToBeDeleted": [path]}
        for partition, file_id, path in files
    ]
    plan = {"instantToRollback": {"commitTime": write, "action": "deltacommit"}, "RollbackRequests": requests}
    timeline = base / ".hoodie" / "timeline"
    (timeline / f"{rollback}.rollback.requested").write_bytes(write_record(ROLLBACK_PLAN, plan))
    (timeline / f"{rollback}_{rollback}.rollback").write_bytes(b"x")
