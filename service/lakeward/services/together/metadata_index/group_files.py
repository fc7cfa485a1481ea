"""The files of a partition of the metadata table that is built: what the initial build of it brings, in a folder.

    <file id>_<token>_<instant>.hfile             the records of a file group as of one snapshot; where there are none
                                                  the file group has no base file, as with Hudi
    .<file id>_<instant>.log.1_<token>            what changed since that snapshot; or what deletes nothing, by which
                                                  every file group is there

Touches: the folder of the attempt.
Keeps:   what is written is read back as it was written, or the build fails, unless the operator waives that.
Source:  HoodieBackedTableMetadataWriter.initializeFilegroupsAndCommit (Hudi 1.2): the same files, the log of which is
         always the empty one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from lakeward.base.paths import join
from lakeward.format.avro.schema import without_meta_columns
from lakeward.format.file_name import HFILE, BaseFileName, WriteToken
from lakeward.format.metadata.base_file import check_written, write_metadata_base_file
from lakeward.format.timeline.commit_metadata import NO_COMMIT, CommitMetadata, RuntimeStats, WriteStat, file_stat
from lakeward.protocol.metadata.group_logs import GroupLogs, OpenLogs
from lakeward.storage.storage import Storage
from lakeward.table.metadata.new_metadata_table import file_id_of, first_log


@dataclass(slots=True)
class GroupFiles:
    storage: Storage
    folder: str
    """The attempt's."""
    partition: str
    instant: str
    schema_json: str
    """The schema of the records."""
    native: bool
    """The metadata table's version has native logs."""
    attempt: int
    """The attempt's number, for the tokens of files."""
    verify: bool
    groups: int = 0
    """File groups of the partition, once that is known."""
    entries: int = 0
    """Records in base files."""
    sizes: dict[str, int] = field(default_factory=dict)
    """The bytes of each file, by its name."""
    _stats: list[WriteStat] = field(default_factory=list)
    _with_logs: set[int] = field(default_factory=set)

    @property
    def group_ids(self) -> list[tuple[str, str]]:
        return [(self.partition, file_id_of(self.partition, group)) for group in range(self.groups)]

    def write_base(self, group: int, entries: Iterable[tuple[bytes, bytes]], *, keys_expected: int) -> None:
        """
        Args:
            entries: keys and records, strictly ascending; at least one.

        Raises `VerificationFailed`.
        """
        file_id = file_id_of(self.partition, group)
        name = BaseFileName(file_id, self._token(group), self.instant, HFILE).text
        path = join(self.folder, name)
        with self.storage.open_output(path) as sink:
            written = write_metadata_base_file(
                sink, schema_json=self.schema_json, entries=entries, keys_expected=keys_expected
            )
        if self.verify:
            with self.storage.open_input(path) as source:
                check_written(source, written, path, file_group=(self.partition, file_id))
        self.entries += written.entries
        self.sizes[name] = written.size_bytes
        stat = file_stat(self.partition, file_id, name, written.size_bytes)
        self._stats.append(
            replace(
                stat,
                prev_commit=NO_COMMIT,
                num_writes=written.entries,
                num_inserts=written.entries,
                runtime_stats=RuntimeStats(total_scan_time=0, total_create_time=0, total_upsert_time=0),
            )
        )

    @contextmanager
    def open_log(self, group: int) -> Iterator[OpenLogs]:
        """The log of what changed; once for a file group, which has something to be written."""
        logs = GroupLogs(
            self.storage,
            self.folder,
            self.partition,
            file_id_of(self.partition, group),
            self.instant,
            self._token(group),
            self.schema_json,
            self.native,
        )
        with logs.open() as opened:
            yield opened
        self._with_logs.add(group)
        for stat in logs.written:
            self._stats.append(stat)
            self.sizes[(stat.path or "").rpartition("/")[2]] = stat.file_size_in_bytes or 0

    def write_first_logs(self) -> None:
        """The logs of the file groups in which nothing changed."""
        for group in range(self.groups):
            if group not in self._with_logs:
                file_id = file_id_of(self.partition, group)
                name, content = first_log(file_id, self.instant, self.schema_json, native=self.native)
                self.storage.create(join(self.folder, name), content)
                self.sizes[name] = len(content)

    def commit(self, *, has_typed_stats: bool) -> CommitMetadata:
        return CommitMetadata(
            partition_to_write_stats={self.partition: tuple(self._stats)} if self._stats else {},
            compacted=False,
            extra_metadata={"schema": without_meta_columns(self.schema_json)},
            operation_type="BULK_INSERT_PREPPED" if has_typed_stats else "BULK_INSERT",
        )

    def _token(self, group: int) -> str:
        return str(WriteToken(group, self.attempt, 0))
