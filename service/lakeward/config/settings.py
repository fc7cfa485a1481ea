"""What an operator may set: one frozen model for each section of the configuration file.

    [service] [http] [spark] [state] [locks] [discovery]   this daemon
    [defaults]                                             every table
    [[tables]]                                             those that match, or one named outright; later ones win

The text below each key is its description in docs/reference/configuration.md and in the JSON schema, and its default
stands there and nowhere else. `config_file` reads and layers these, `config_rules` holds what one key alone cannot say.

Touches: nothing; the environment for where the state folder is.
Keeps:   1. durations are seconds (float) and sizes bytes (int), however they were written;
         2. an unknown key is an error;
         3. a secret does not show when a model is printed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    Strict,
    StringConstraints,
    WithJsonSchema,
)

from lakeward.base.errors import UsageError
from lakeward.base.printable import printable_url
from lakeward.base.quantities import OPERATION_BYTES_MIN, check_memory, parse_duration, parse_size, write_size
from lakeward.base.state_folder import state_folder
from lakeward.config.codec import Codec
from lakeward.config.foreign_services import ForeignServices
from lakeward.config.lock_provider import LockProvider
from lakeward.config.window import Window
from lakeward.format.bloom_size import ROW_BYTES_LIMIT, ROW_BYTES_MAX
from lakeward.index.record.record_options import LookupMode, LookupOptions, RecordOptions
from lakeward.index.update_choice import UpdateOptions
from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.lock.file_system_lock import FileSystemLockOptions
from lakeward.protocol.lock.opening import LockOptions, stopped_writers_options
from lakeward.protocol.lock.storage_lock import StorageLockOptions
from lakeward.protocol.lock.zookeeper_options import ZooKeeperLockOptions, check_node_path, check_servers
from lakeward.protocol.pending.silence import SILENT_AFTER_SECONDS
from lakeward.protocol.yielding import WritersConflict, YieldOptions, YieldThen
from lakeward.services.archive.plan.settings import (
    CLEANED,
    KEEP_MAX,
    KEEP_MIN,
    TRIGGER,
    ArchiveOptions,
    ArchiveRules,
    archive_options_of,
)
from lakeward.services.clean.plan.consumer import WatermarkPlace, parse_place
from lakeward.services.clean.plan.options import CleanOptions
from lakeward.services.clean.plan.policy import READER_WINDOW_SECONDS, CleanPolicy, CleanPolicyKind
from lakeward.services.clean.plan.settings import (
    CleanRules,
    clean_policy_of,
    is_incremental,
    merge_clean_settings,
    says_what_is_kept,
)
from lakeward.services.compaction.plan.compaction_type import CompactionType
from lakeward.services.compaction.plan.planner import merge_settings
from lakeward.services.metadata.plan.compact_after import AUTO, MetadataCompactAfter
from lakeward.services.rollback.settings import RollbackRules
from lakeward.storage.opening import open_storage
from lakeward.table.listing import ListingSource
from lakeward.table.timeline.timezone import parse_zone

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SettingKind:
    """How values of a key are written, for people: part of its type, shown in the reference and in errors."""

    text: str


def _duration(value: object) -> object:
    if isinstance(value, str):
        return parse_duration(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError("A duration is written like 90s, 15m, 2h or as a number of seconds.")
    return float(value)


def _duration_or_off(value: object) -> object:
    if value == "none":
        return None
    try:
        return _duration(value)
    except ValueError as error:
        raise ValueError(f"{error} Or write none.") from error


def _size(value: object) -> object:
    if isinstance(value, str):
        return parse_size(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError("A size is written like 512MiB, 2GiB or as a number of bytes.")
    return int(value)


def _size_or_off(value: object) -> object:
    if value == "none":
        return None
    try:
        return _size(value)
    except ValueError as error:
        raise ValueError(f"{error} Or write none.") from error


def _metadata_after(value: object) -> object:
    if value in (AUTO, "off"):
        return AUTO if value == AUTO else 0
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError('It is "auto", "off" or a whole number.')
    return value


def _verbatim(value: object) -> object:
    """A value that another program reads as text: numbers and booleans as TOML writes them."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


def _one_list(value: object) -> object:
    if isinstance(value, str):
        raise ValueError(f"It is a list, so it is written in brackets: [{value!r}].")
    return value


def _checked(parse: Callable[[str], object]) -> AfterValidator:
    """The text stays as it is written, and is one that `parse` takes."""

    def check(text: str) -> str:
        try:
            parse(text)
        except UsageError as error:
            raise ValueError(f"{error.why} {error.remedy}") from error
        return text

    return AfterValidator(check)


def _address(text: str) -> None:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535 or (":" in host and not re.fullmatch(r"\[.+\]", host)):
        raise ValueError("An address is written like 127.0.0.1:8490, 0.0.0.0:8490 or [::1]:8490.")


def _location(text: str) -> None:
    if "://" not in text and not text.startswith("/"):
        raise ValueError("It is neither an absolute path nor a URL; the daemon has no folder that it starts from.")
    open_storage(text)


def _glob(text: str) -> None:
    if not text.strip():
        raise ValueError("An empty pattern matches nothing.")
    if text.count("[") != text.count("]"):
        raise ValueError("A '[' without its ']' matches only itself; a set is written like [0-9].")


def _lock_key(text: str) -> None:
    if "/" in text:
        raise ValueError("It is one name, without a slash; the path above it is base_path.")


_DURATION_SCHEMA = WithJsonSchema({"type": ["string", "number"], "description": "90s, 15m, 2h; a number is seconds"})
_SIZE_SCHEMA = WithJsonSchema({"type": ["string", "number"], "description": "512MiB, 2GiB; a number is bytes"})
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"

Flag = Annotated[bool, Strict(), SettingKind("true or false")]
Count = Annotated[int, Strict(), Field(ge=1), SettingKind("whole number from 1")]
Share = Annotated[float, Field(gt=0, le=1), SettingKind("number above 0, up to 1")]
MetadataAfter = Annotated[
    MetadataCompactAfter,
    BeforeValidator(_metadata_after),
    WithJsonSchema({"type": ["string", "integer"], "description": "auto, off, or a number of delta commits"}),
    SettingKind("auto, off or a whole number"),
]
Duration = Annotated[float, BeforeValidator(_duration), Field(gt=0), _DURATION_SCHEMA, SettingKind("duration above 0")]
DurationOrNone = Annotated[float, BeforeValidator(_duration), Field(ge=0), _DURATION_SCHEMA, SettingKind("duration")]
DurationOrOff = Annotated[
    Annotated[float, Field(gt=0)] | None,
    BeforeValidator(_duration_or_off),
    WithJsonSchema({"type": ["string", "number"], "description": "90s, 15m, 2h; a number is seconds; or none"}),
    SettingKind("duration above 0, or none"),
]
Size = Annotated[int, BeforeValidator(_size), Field(gt=0), _SIZE_SCHEMA, SettingKind("size above 0")]
OperationMemory = Annotated[
    int,
    BeforeValidator(_size),
    AfterValidator(check_memory),
    _SIZE_SCHEMA,
    SettingKind(f"size from {write_size(OPERATION_BYTES_MIN)}"),
]
SizeOrOff = Annotated[
    Annotated[int, Field(ge=0)] | None,
    BeforeValidator(_size_or_off),
    WithJsonSchema({"type": ["string", "integer"], "description": "512MiB, 2GiB; a number is bytes; or none"}),
    SettingKind("size, or none"),
]
Text = Annotated[str, Strict(), StringConstraints(min_length=1), SettingKind("text")]
Name = Annotated[
    str, Strict(), StringConstraints(pattern=f"^{_NAME}$"), SettingKind("name of letters, digits, dots, - and _")
]
Verbatim = Annotated[str, BeforeValidator(_verbatim), SettingKind("text")]
Glob = Annotated[str, Strict(), _checked(_glob), SettingKind("pattern in which * and ? match")]
Location = Annotated[str, Strict(), _checked(_location), SettingKind("absolute path or URL")]
WindowText = Annotated[
    str, Strict(), _checked(Window.parse), SettingKind("window like 'Mon-Fri 22:00-06:00 Europe/Berlin'")
]
Zone = Annotated[str, Strict(), _checked(parse_zone), SettingKind("zone like UTC, +02:00 or Europe/Berlin")]
Servers = Annotated[str, Strict(), _checked(check_servers), SettingKind("servers like zk1:2181,zk2:2181")]
NodePath = Annotated[str, Strict(), _checked(check_node_path), SettingKind("path like /hudi/locks")]
LockKey = Annotated[
    str, Strict(), StringConstraints(min_length=1), _checked(_lock_key), SettingKind("name without a slash")
]
Address = Annotated[str, Strict(), _checked(_address), SettingKind("host:port")]
File = Annotated[Path, SettingKind("path")]
Secret = Annotated[SecretStr, SettingKind("URL")]
Token = Annotated[SecretStr, SettingKind("text of 16 characters or more")]
HostName = Annotated[str, Strict(), StringConstraints(pattern=f"^{_NAME}$"), SettingKind("host name without a port")]
Many = Annotated[tuple[T, ...], BeforeValidator(_one_list)]

RESTART: dict[str, Any] = {"restart": True}
"""The mark of a key that cannot change while the daemon runs; part of the JSON schema too."""


class Writers(StrEnum):
    """What an operator says about a table's other writers."""

    STOPPED = "stopped"
    SHARE = "share"


class LogFormat(StrEnum):
    AUTO = "auto"
    JSON = "json"
    CONSOLE = "console"


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, validate_default=False)

    def with_given(self, other: _Section) -> Self:
        """This one, but for what the other gives and this one has. Tables of other people's keys add up."""
        given = {key: getattr(other, key) for key in other.model_fields_set & type(self).model_fields.keys()}
        for key, value in given.items():
            mine = getattr(self, key)
            if isinstance(value, _Section) and isinstance(mine, _Section):
                given[key] = mine.with_given(value)
            elif key in _ADDED_UP:
                given[key] = _ADDED_UP[key](mine, value)
        return self.model_copy(update=given)


class ServiceSettings(_Section):
    """The daemon itself, and what all its tables share."""

    name: Name = Field(default="lakeward", json_schema_extra=RESTART)
    """Identity of this service. Daemons that share one store share this name; plans are marked with it."""
    listen: Address = Field(default="127.0.0.1:8490", json_schema_extra=RESTART)
    """Address of pages, metrics and health. What other machines can reach needs a token, or a proxy: [http]."""
    tick: Duration = 1.0
    """The longest time between two checks of what is due."""
    jobs_max: Count = 2
    """Jobs that run at once, over all tables."""
    groups: dict[Name, Count] = {}
    """Jobs that run at once in each named group of tables; `group` of a table says which one it is in."""
    engine: Literal["auto", "spark", "local"] = "auto"
    """What runs compactions, verifications, and updates and checks of indexes. `auto`: Spark runs what reads 128 MiB
    or more (8 MiB while a session is up), and processes of this machine the rest, or all of it where Spark finds no
    Java; Spark runs all where `spark.master` or `spark.remote` is named. `spark`: Spark runs all. `local`: processes of
    this machine do, and no session is ever started. Commands follow it, too, with sizes of their own."""
    memory: Size = 2 * 1024**3
    """What all running operations together may hold, as their `memory` predicts it."""
    io_per_hour: Size | None = None
    """Bytes that all jobs together may read and write in an hour."""
    grace: DurationOrNone = 60.0
    """After a request to stop: how long running operations may go on before they are abandoned."""
    log_format: LogFormat = Field(default=LogFormat.AUTO, json_schema_extra=RESTART)
    """`json`: one line for each event. `auto`: for people on a terminal, else `json`."""
    log_level: LogLevel = LogLevel.INFO
    """The least important events that are written."""
    state_folder: File = Field(default_factory=state_folder, json_schema_extra=RESTART)
    """The folder for the service's own files: the embedded store, and bundles of failed verifications."""


class HttpSettings(_Section):
    """Who may read pages and metrics. Health and readiness are open to everybody who reaches the port."""

    token_file: File | None = Field(default=None, json_schema_extra=RESTART)
    """A file that holds the token for pages, metrics and reloading: `Authorization: Bearer TOKEN`, or in a browser the
    password of any user. Relative to the configuration file."""
    token: Token | None = Field(default=None, json_schema_extra=RESTART)
    """The token itself; only from the environment."""
    behind_proxy: Flag = Field(default=False, json_schema_extra=RESTART)
    """A proxy asks who comes, and no request reaches the port but through it: no token is needed then."""
    hosts: Many[HostName] = Field(default=(), json_schema_extra=RESTART)
    """Names under which browsers and Prometheus reach the daemon, besides that in `listen`, localhost and addresses in
    numbers. A request for another name is refused, which keeps pages of strangers out."""


class SparkSettings(_Section):
    """The one Spark session that runs the jobs of all tables. It starts with the first job that is for it
    (`service.engine`), and ends after some time without one."""

    master: Text = Field(default="local[*]", json_schema_extra=RESTART)
    """Spark's master URL."""
    remote: Secret | None = Field(default=None, json_schema_extra=RESTART)
    """A Spark Connect server, `sc://host:port`, instead of `master`. One with a token comes from the environment."""
    conf: dict[Text, Verbatim] = Field(default={}, json_schema_extra=RESTART)
    """Spark's own settings, verbatim. Those that hold a secret come from the environment."""
    pool: Text = Field(default="lakeward", json_schema_extra=RESTART)
    """Name of the scheduler pool of our jobs, for a session with fair scheduling."""
    idle_stop: DurationOrOff = 600.0
    """The daemon ends its session, and gives the memory back, when no job has used it for so long. "none": never."""

    @property
    def is_named(self) -> bool:
        """Whether the Spark that is meant was named, and is not the default."""
        return bool(self.model_fields_set & {"master", "remote"})

    @property
    def where(self) -> str:
        """The Spark that is meant, without secrets."""
        return "Spark Connect" if self.remote is not None else printable_url(self.master)


class StateSettings(_Section):
    """The store. It remembers, and is never the truth about a table: without it nothing is lost but the past."""

    url: Secret | None = Field(default=None, json_schema_extra=RESTART)
    """`sqlite:///PATH` or `postgresql://…`; not given: SQLite in the state folder. A URL with a password belongs into
    `url_file` or the environment."""
    url_file: File | None = Field(default=None, json_schema_extra=RESTART)
    """A file that holds the URL, for example a mounted secret. Relative to the configuration file."""
    lease: Duration = Field(default=60.0, json_schema_extra=RESTART)
    """How long a table stays with a daemon that renews nothing, where several share the store."""


class ZooKeeperSettings(_Section):
    """The lock of the provider `zookeeper`: what the writers have as `hoodie.write.lock.zookeeper.*`."""

    url: Servers | None = None
    """The servers, each with its port, and after them a path if all of it lies below one. Hudi itself reads no port
    from hoodie.write.lock.zookeeper.port."""
    base_path: NodePath | None = None
    """The same for all tables, as a rule. Not given: it is derived from the base path of each table, and so is the key,
    as Hudi's ZookeeperBasedImplicitBasePathLockProvider does."""
    lock_key: LockKey | None = None
    """Key of one table's lock, below `base_path`; not given: the table's name (hoodie.table.name), as in Hudi."""
    session_timeout: Duration = 60.0
    """How long the servers keep the lock of a process that died or that they cannot reach. They set bounds to it."""


class LockSettings(_Section):
    """Your word about the other writers of the tables, which no file of a table can give."""

    writers: Writers | None = None
    """`stopped`: no other process writes or services the tables. `share`: writers go on, and each of them uses the lock
    provider below. Not given: tables are planned and nothing is written."""
    provider: LockProvider = LockProvider.FILESYSTEM
    """The lock that is shared. `filesystem`: Hudi's file-system lock provider with its default path. `storage`: Hudi's
    storage-based lock provider, for tables in object stores. `zookeeper`: Hudi's ZooKeeper lock providers."""
    zookeeper: ZooKeeperSettings = ZooKeeperSettings()
    """The address and place of that lock."""
    wait: DurationOrNone = 60.0
    """How long to wait for the lock of a table before its job is put off."""
    expire: Annotated[Duration, Field(ge=60), SettingKind("duration from 1m")] | None = None
    """After how long the writers let a lock expire (hoodie.write.lock.filesystem.expire, which counts minutes); not
    given: never. For `filesystem` only: the other locks end by themselves when their holder dies."""
    writers_conflict: WritersConflict | None = None
    """How the writers find conflicts, which nothing on a table reveals. `default`: they are of Hudi 1.1 or later and
    have the default strategy. `prefer-writer`: one has PreferWriterConflictResolutionStrategy or early conflict
    detection. `1.0`: one is of Hudi 1.0. Not given: `default` for tables of version 9, `1.0` for those of version 8."""
    yield_to_writers: DurationOrNone = 60.0
    """How long merged work waits for one write that would fail if it were published; for all writes, three times that.
    """
    yield_then: YieldThen = YieldThen.LEAVE_OUT
    """After that wait: `leave-out`, publish without the partitions in which the write is at work, and nothing where it
    may be in any; `drop`, publish nothing; `go-on`, publish, and let the write fail. A plan of full compactions is
    published whole, or stays."""

    @property
    def yielding(self) -> YieldOptions:
        """How the writers are waited for."""
        return YieldOptions(self.yield_to_writers, self.yield_then, self.writers_conflict)

    @property
    def why_nothing_is_written(self) -> str | None:
        """A sentence for the operator of a table that is only planned; None where writing is allowed."""
        if self.writers is not None:
            return None
        return (
            "The configuration says nothing about the table's other writers: set locks.writers to 'stopped' or "
            "'share', for all tables under [locks] or for some under [[tables]]."
        )

    @property
    def options(self) -> LockOptions:
        """How the table lock is taken."""
        if self.writers is Writers.STOPPED:
            return stopped_writers_options(wait_seconds=self.wait, expire_seconds=self.expire)
        if self.provider is LockProvider.FILESYSTEM:
            return FileSystemLockOptions(wait_seconds=self.wait, expire_seconds=self.expire)
        if self.provider is LockProvider.STORAGE:
            return StorageLockOptions(wait_seconds=self.wait)
        assert self.zookeeper.url is not None, "a rule of the configuration"
        return ZooKeeperLockOptions(
            self.zookeeper.url,
            self.zookeeper.base_path,
            self.zookeeper.lock_key,
            session_seconds=self.zookeeper.session_timeout,
            wait_seconds=self.wait,
        )


class DiscoverySettings(_Section):
    """Tables that are found. Those under [[tables]] with a `path` are serviced without being found."""

    roots: Many[Location] = ()
    """Folders below which tables are looked for."""
    include: Many[Glob] = ()
    """Only tables whose base path, or path below its root, matches one of these; none given: all."""
    exclude: Many[Glob] = ()
    """Folders that are not entered and tables that are excluded."""
    interval: Duration = 60.0
    """Between two searches."""
    depth: Count = 4
    """How many folders below a root a table may lie."""


class CleanSettings(_Section):
    """How much of a table's past its cleans keep, those of the daemon and of commands that are given this file."""

    policy: CleanPolicyKind | None = None
    """`commits`: what can be read as of the last commits. `hours`: as of the commits of the last hours. `versions`: the
    newest slices of each file group. Not given, neither here nor under `hudi`: `commits`, as with Hudi; and where
    the newest clean of the table's own writers shows that they keep more than that, as much as they do."""
    retain: Count | None = None
    """How many of these. Not given: as with Hudi, 10 commits, 24 hours or 3 versions."""
    hudi: dict[Text, Verbatim] = {}
    """Settings of Hudi's cleaner by their keys: `hoodie.clean.policy`, `hoodie.clean.commits.retained`,
    `hoodie.clean.fileversions.retained`, `hoodie.clean.hours.retained`, `hoodie.clean.incremental.enabled` (true: only
    partitions written to since an earlier clean are looked at), also by their older names, `hoodie.cleaner.*`.
    `policy` and `retain` win. A table adds to what [defaults] says."""
    reader_window: DurationOrNone = READER_WINDOW_SECONDS
    """The longest query that is waited for: what a commit superseded stays for so long after that commit completed. 0,
    as with Hudi: none is waited for."""
    consumers: dict[Text, Annotated[Text, _checked(parse_place)]] = {}
    """Incremental consumers by name, and where each says up to which time it has read: `file:PATH`, `property:KEY` of
    the table, or `table:PATH` of the table that it writes as a Hudi Streamer. What it has not read stays."""
    keep_deleted: DurationOrNone = 0.0
    """What a clean takes away is kept for so long in the quarantine, `.hoodie/.quarantine`, from where
    `lakeward clean --undo` brings it back. 0, as with Hudi: it is deleted at once. We recommend 1d."""
    quarantine_max: SizeOrOff = None
    """What the quarantine of a table may hold. What is more than that is deleted before its time, the oldest first."""
    after: Count = 5
    """The daemon cleans once slices could have gone for so many commits. Writers that clean by themselves do so at
    each commit, so it leaves it to them as long as they do; 1: at once, beside them."""

    @property
    def places(self) -> dict[str, WatermarkPlace]:
        """The place of each consumer's watermark, by its name."""
        return {name: parse_place(place) for name, place in self.consumers.items()}

    @property
    def is_given(self) -> bool:
        """Something is said about what is kept."""
        return self.policy is not None or self.retain is not None or says_what_is_kept(self.hudi)

    @property
    def options(self) -> CleanOptions:
        """The options of a clean. Raises `UsageError`."""
        policy = self.chosen if self.is_given else None
        return CleanOptions(policy, self.reader_window, self.places, is_incremental(self.hudi))

    @property
    def chosen(self) -> CleanPolicy:
        """The effective value. Raises `UsageError`."""
        return clean_policy_of(self.hudi, kind=self.policy, retain=self.retain)

    @property
    def is_incremental(self) -> bool:
        """Cleans look only at what was written to since an earlier one. Raises `UsageError`."""
        return is_incremental(self.hudi)


class RollbackSettings(_Section):
    """Which failed writes the daemon rolls back, and since when services that were left unfinished count as dead."""

    after: Duration = 600.0
    """A pending write is looked at once nothing of it has changed on the timeline for so long, and rolled back if its
    writer is dead: docs/services/rollback.md says what counts as that. Hudi's own writers do so before each write
    or clean, so it leaves it to them as long as they come."""
    silent_after: DurationOrOff = SILENT_AFTER_SECONDS
    """A compaction, log compaction or clustering that another engine began, beside writers that share the lock, and
    that has no heartbeat, counts as dead once nothing of it has changed for so long, on the timeline or among its
    markers. It must be more than the longest that one file takes to be written. "none": never, unless writers are
    stopped. For commands that are given this file, too."""


class ArchiveSettings(_Section):
    """How long the active timeline is, for the daemon and for commands that are given this file."""

    min_commits: Count | None = None
    """So many commits stay at least (`hoodie.keep.min.commits`); not given: 20. What a clean still needs stays as well,
    however little this is."""
    max_commits: Count | None = None
    """From more commits than this on the oldest go (`hoodie.keep.max.commits`); not given: 30."""
    hudi: dict[Text, Verbatim] = {}
    """Settings of Hudi's archiver by their keys: `hoodie.keep.min.commits`, `hoodie.keep.max.commits`,
    `hoodie.clean.commits.retained`, `hoodie.compact.inline.max.delta.commits`, `hoodie.timeline.compaction.batch.size`,
    `hoodie.timeline.manifest.retained.versions`. What is given above wins. A table adds to what [defaults] says."""
    after: Count = 5
    """The daemon archives once there are so many commits more than may be. Writers that archive by themselves do so at
    each commit, so it leaves it to them as long as they do; 1: at once, beside them."""

    def by_hudis_keys(self, clean: CleanSettings, planner: Mapping[str, str]) -> dict[str, str]:
        """What is given here, and elsewhere of what cleaning retains and of what triggers a compaction."""
        beside = {TRIGGER: planner[TRIGGER]} if TRIGGER in planner else {}
        if clean.is_given and clean.chosen.kind is CleanPolicyKind.COMMITS:
            beside[CLEANED] = str(clean.chosen.retain)
        numbers = {KEEP_MIN: self.min_commits, KEEP_MAX: self.max_commits}
        given = {key: str(number) for key, number in numbers.items() if number is not None}
        return merge_clean_settings(beside, self.hudi, given)

    def chosen(self, clean: CleanSettings, planner: Mapping[str, str]) -> ArchiveOptions:
        """The effective values. Raises `UsageError`."""
        return archive_options_of(self.by_hudis_keys(clean, planner))


class RecordLookupSettings(_Section):
    """How keys are looked up in the files of Lakeward's record index."""

    mode: Literal["dynamic", "seek", "scan"] = "dynamic"
    """`seek` reads the blocks that may have a key, `scan` all between the first and the last of them; `dynamic`: one or
    the other for each file, by the share of its entries that is looked up."""
    dynamic: Share = 0.35
    """Keys that are looked up by entries of the file, from which on `dynamic` scans."""


class RecordIndexSettings(_Section):
    """Lakeward's record index, which stands below the table's `.hoodie` (`lakeward index build --type record`)."""

    location: Location | None = None
    """A folder of the same storage in which the index is kept instead, each table's in one of its own: where nothing
    may be written below the table."""
    buckets: Count | None = None
    """How many buckets an index is made with; not given: a million keys each, and a third more for growth. It does not
    change until the index is rebuilt.
    """
    hash: Literal["java-string", "lakeward-64"] = "java-string"
    """Which hash spreads keys over the buckets; likewise."""
    scaling: Literal["group", "seal"] = "group"
    """What is done when buckets are full: `group` opens a further group of as many buckets as there are, `seal` lets a
    full bucket go on in another file group; docs/decisions/0079 contrasts them. Likewise."""
    entries_max: Count = 1_000_000
    """Entries with which a bucket is full. Likewise."""
    lookup: RecordLookupSettings = RecordLookupSettings()

    @property
    def options(self) -> RecordOptions:
        """The place of the index, and how it is asked."""
        return RecordOptions(self.location, LookupOptions(LookupMode(self.lookup.mode), self.lookup.dynamic))


class IndexSettings(_Section):
    """How the daemon keeps the indexes of a table: Lakeward's own are brought up to date, and these and Hudi's record
    index checked.
    """

    update: Flag = True
    """Lakeward's indexes that are there, below the table and in the store's database, and its cache of filters, are
    brought up to date. false: by `lakeward index update` alone, and `lakeward index tee` compares one on trial."""
    update_after: Duration = 60.0
    """So long the first of the commits that an index lacks may wait, so that one update takes several in; lookups cover
    them until then."""
    update_after_commits: Count = 8
    """Once an index lacks so many it is brought up to date at once; likewise once they wrote 64 MiB."""
    verify_every: Duration = 24 * 3600.0
    """Between two checks of an index, at times that are spread over the tables."""
    verify_merged: SizeOrOff = 16 * 1024**3
    """Slices with logs are merged for their keys, up to so many bytes a check; which ones, is chosen again each time.
    `none`: all of them are."""
    verify_entries: Count = 20_000_000
    """No further part of an index is read once so many of its entries were; which parts, is chosen again each time."""
    verify_keys: Count = 4603
    """Rows that are drawn and looked up, and entries that are drawn and looked for: with 4603 of each, however large
    the table is, an index of which one in a thousand is wrong is found with a confidence of 99%;
    docs/services/index-judges.md has the formula."""
    record: RecordIndexSettings = RecordIndexSettings()

    @property
    def update_options(self) -> UpdateOptions:
        """When an index is brought up to date."""
        return UpdateOptions(self.update, self.update_after, self.update_after_commits)


class TableSettings(_Section):
    """How a table is serviced."""

    enabled: Flag = True
    """false: it is neither polled nor changed, and stays on the page."""
    group: Name = "default"
    """The named group of tables it belongs to; `service.groups` gives the groups their limits."""
    services: Many[
        Literal[
            JobKind.ROLLBACK,
            JobKind.COMPACTION,
            JobKind.INDEX,
            JobKind.CLEAN,
            JobKind.ARCHIVE,
            JobKind.VERIFICATION,
        ]
    ] = (
        JobKind.ROLLBACK,
        JobKind.COMPACTION,
        JobKind.INDEX,
        JobKind.CLEAN,
        JobKind.ARCHIVE,
        JobKind.VERIFICATION,
    )
    """What is done for it: failed writes rolled back, file groups compacted, indexes held against the rows, old file
    slices cleaned away, the oldest instants archived, a sample of all that verified. Whatever the order here, it is
    done in this one."""
    type: CompactionType = CompactionType.HYBRID
    """What a compaction may choose from: `hybrid`, FULL or LOG or nothing for each file group, whichever pays; `full`;
    `log`."""
    planner: dict[Text, Verbatim] = {}
    """Settings of the planner by their keys, Hudi's own verbatim. A table adds to what [defaults] says."""
    partitions: Many[Glob] = ()
    """Only partitions of these paths; none given: all."""
    exclude_partitions: Many[Glob] = ()
    """Not the partitions of these paths."""
    interval: Duration = 10.0
    """Between two polls of its timeline."""
    replan: Duration = 900.0
    """A table that does not change is planned again after this, because triggers depend on the time too."""
    objective: DurationOrOff = 86400.0
    """No committed record stays in logs only for longer than this: a file group that comes close to it is merged with
    its base, whatever the triggers say, and its table goes first. Windows, pauses and budgets hold all the same.
    `none`: it may, and no alert says so; with `type = "log"` there is none."""
    windows: Many[WindowText] = ()
    """Compactions and verifications start only while one of these is open; none given: always. Nothing else moves
    rows."""
    plan_expiry: Duration = 6 * 3600.0
    """A pending plan of Lakeward that was not carried out is unscheduled after this, so that it holds no file group
    up.
    """
    metadata_compact_after: MetadataAfter = AUTO
    """The metadata table is cleaned and compacted once so many delta commits came since that was done last, also
    outside of windows. `auto`: a few before its Hudi writers would have to, which is at 10
    (`hoodie.metadata.compact.max.delta.commits`) or what their compactions of it show. `off`, or 0: it is left to
    them."""
    foreign_services: ForeignServices = ForeignServices.SHADOW
    """When another service turns out to work on the table too: `shadow`, plan and write nothing; `share`, go on."""
    memory: OperationMemory = 512 * 1024**2
    """Peak memory of one operation, interpreter included. A row of more than a sixth of what that leaves (272 MiB) is
    refused: 40 MiB of 512 MiB."""
    codec: Codec = Codec.ZSTD
    """Compression of new base files."""
    bloom_filter_max: Annotated[Size, Field(le=ROW_BYTES_LIMIT)] = ROW_BYTES_MAX
    """What the bits of a base file's bloom filter may take, up to 64MiB. A key takes 5.4 bytes, and 7.2 of the footer,
    which every reader reads; with more keys than there is room for the filter errs more often than one time in 10^9,
    which is reported. `memory` bounds it, too: at a fifteenth of what it leaves for rows, 16 MiB of 512 MiB."""
    verify: Flag = True
    """Read every new file back and merge a sample of its keys a second, slow way before it is published."""
    verification_interval: Duration = 24 * 3600.0
    """Between two verifications of a sample of what is there."""
    verification_groups: Count = 4
    """File groups in a sample."""
    listing: ListingSource | None = None
    """How the files of a table are listed: `storage`, by listing its partitions, or `metadata`, its metadata table
    where it has one. Not given: `metadata` in object stores, else `storage`. What is chosen is compared with
    the storage."""
    timezone: Zone | None = None
    """Zone of the machines that write, where hoodie.table.timeline.timezone is LOCAL; not given: inferred where that
    leaves no doubt, which it does not while any zone of the same offset other than UTC sets its clocks."""
    retry_first: Duration = 30.0
    """After a failure: the pause before the next attempt, which doubles with each failure that follows."""
    retry_max: Duration = 1800.0
    """The longest such pause."""
    failures_max: Count = 5
    """After so many failures in a row the table, or the file group that fails, is parked."""
    parked_for: Duration = 24 * 3600.0
    """How long it is parked."""
    poll_deadline: Duration = 60.0
    """A poll of the timeline that takes longer is given up."""
    plan_deadline: Duration = 300.0
    """The same for planning."""
    job_deadline: Duration = 1800.0
    """The same for a job that reads little; it has one more second for each 8 MiB that it reads. A job of unknown size,
    such as a clean, has four times this."""
    clean: CleanSettings = CleanSettings()
    """What is given here overrides what [defaults.clean] says, key by key."""
    archive: ArchiveSettings = ArchiveSettings()
    """The same for [defaults.archive]."""
    rollback: RollbackSettings = RollbackSettings()
    """The same for [defaults.rollback]."""
    index: IndexSettings = IndexSettings()
    """The same for [defaults.index]."""
    locks: LockSettings | None = None
    """For these tables; what is not given here is as under [locks]."""

    @property
    def names_services(self) -> bool:
        """The configuration names the services, so that one which cannot run is refused and not left out."""
        return "services" in self.model_fields_set

    def rules_of(self, service: JobKind) -> object:
        """The settings of one of `services/services.py`, as it takes them. Raises `UsageError`."""
        match service:
            case JobKind.ARCHIVE:
                return ArchiveRules(self.archive.chosen(self.clean, self.planner), self.archive.after)
            case JobKind.CLEAN:
                clean = self.clean
                return CleanRules(clean.options, clean.after, clean.keep_deleted, clean.quarantine_max)
            case JobKind.ROLLBACK:
                return RollbackRules(self.rollback.after)
            case _:
                raise AssertionError(f"{service} has no settings of its own")

    @property
    def objective_kept(self) -> float | None:
        """The objective, where Lakeward keeps it: no LOG keeps it."""
        is_ours = JobKind.COMPACTION in self.services and self.type is not CompactionType.LOG
        return self.objective if is_ours else None


class TableOverride(TableSettings):
    """Settings of the tables that match, or of one that is named outright. Only what is given overrides."""

    match: Glob | None = None
    """The tables whose base path or name matches."""
    path: Location | None = None
    """Base path of one table, which is serviced whether or not it is found."""
    name: Name | None = None
    """What that table is called in commands, pages and metrics; not given: its base path."""

    def applies_to(self, name: str, base_path: str) -> bool:
        if self.path is not None:
            return base_path_of(self.path) == base_path
        return self.match is not None and (fnmatchcase(base_path, self.match) or fnmatchcase(name, self.match))

    @property
    def identity(self) -> tuple[str, str] | None:
        """(name, base path) of a table that is named outright."""
        if self.path is None:
            return None
        base_path = base_path_of(self.path)
        return self.name or base_path, base_path


KeyPath = tuple[str | int, ...]
"""Path to a value in the file: `("tables", 2, "interval")`."""


class Settings(_Section):
    """The whole configuration."""

    service: ServiceSettings = Field(default_factory=ServiceSettings)  # asks the environment where the state folder is
    http: HttpSettings = HttpSettings()
    spark: SparkSettings = SparkSettings()
    state: StateSettings = StateSettings()
    locks: LockSettings = LockSettings()
    discovery: DiscoverySettings = DiscoverySettings()
    defaults: TableSettings = TableSettings()
    tables: tuple[TableOverride, ...] = ()

    @property
    def store_url(self) -> str:
        """The URL of the store; may hold a password."""
        if self.state.url is not None:
            return self.state.url.get_secret_value()
        return f"sqlite:///{self.own_store_file}"

    @property
    def own_store_file(self) -> Path:
        """The file of the store where no URL says another place."""
        return self.service.state_folder / "lakeward.db"

    @property
    def http_token(self) -> str | None:
        return self.http.token.get_secret_value() if self.http.token is not None else None

    @property
    def named_tables(self) -> tuple[tuple[str, str], ...]:
        """(name, base path) of the tables that are named outright."""
        return tuple(dict.fromkeys(table.identity for table in self.tables if table.identity is not None))

    @property
    def names_tables(self) -> bool:
        """Whether it says where any table is."""
        return bool(self.discovery.roots or self.named_tables)

    def name_of(self, base_path: str) -> str:
        """What the table there is called: as configured, else its base path."""
        return next((name for name, path in self.named_tables if path == base_path), base_path)

    @property
    def memory_max(self) -> int:
        """The most that one operation may hold, whatever its table; in bytes."""
        given = [table.memory for table in self.tables if "memory" in table.model_fields_set]
        return max([self.defaults.memory, *given])

    def table(self, name: str, path: str) -> TableSettings:
        """How that table is serviced: [defaults], then what matches, in the order of the file. `locks` is complete."""
        table = TableSettings(planner={}, locks=self.locks)
        for _, layer in self._given(name, path):
            table = table.with_given(layer)
        return table

    def table_sources(self, name: str, path: str) -> Mapping[KeyPath, KeyPath]:
        """For each key that the file gives for that table, where: `("interval",)` to `("tables", 2, "interval")`."""
        sources: dict[KeyPath, KeyPath] = {("locks", key): ("locks", key) for key in self.locks.model_fields_set}
        for at, layer in self._given(name, path):
            for key in layer.model_fields_set & TableSettings.model_fields.keys():
                if key == "planner":
                    sources |= {("planner", name): (*at, "planner", name) for name in layer.planner}
                elif isinstance(section := getattr(layer, key), BaseModel):
                    sources |= {(key, name): (*at, key, name) for name in section.model_fields_set}
                else:
                    sources[key,] = (*at, key)
        return sources

    def _given(self, name: str, path: str) -> Sequence[tuple[KeyPath, TableSettings]]:
        matching = [
            (("tables", index), override)
            for index, override in enumerate(self.tables)
            if override.applies_to(name, path)
        ]
        return [(("defaults",), self.defaults), *matching]


_ADDED_UP: Mapping[str, Callable[..., dict[str, str]]] = {"planner": merge_settings, "hudi": merge_clean_settings}
"""How the tables of other people's keys are put together, the first that is given first."""


def base_path_of(location: str) -> str:
    """The name that the daemon gives a table without one."""
    return open_storage(location)[1]
