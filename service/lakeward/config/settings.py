"""What an operator may set: one frozen model for each section of the configuration file.

    [service] [http] [metrics] [spark] [state] [locks] [discovery]   this daemon
    [defaults]                                                       each table
    [[tables]]                                                       those that match, or one by its path; later win

The text below each key is its description in docs/reference/configuration.md and in the JSON schema, and its default
stands there and nowhere else. `config/file.py` reads and layers these, `config/rules.py` holds what one key alone
cannot say.

Touches: nothing; the environment for where the state folder is.
Keeps:   1. durations are seconds (float) and sizes bytes (int), however they were written;
         2. an unknown key is an error;
         3. a secret does not show when a model is printed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    PrivateAttr,
    SecretStr,
    Strict,
    StringConstraints,
    WithJsonSchema,
    create_model,
)

from lakeward.base.printable import printable_url
from lakeward.base.quantities import OPERATION_BYTES_MIN, check_memory, write_size
from lakeward.config.choices import Codec, ForeignServices, LockProvider
from lakeward.config.window import Window
from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.lock.file_system_lock import FileSystemLockOptions
from lakeward.protocol.lock.lock_choice import LockOptions, stopped_writers_options
from lakeward.protocol.lock.storage_lock import StorageLockOptions
from lakeward.protocol.lock.zookeeper_options import ZooKeeperLockOptions, check_node_path, check_servers
from lakeward.protocol.options import SILENT_AFTER_SECONDS, state_folder
from lakeward.protocol.section import (
    SIZE_SCHEMA,
    Count,
    Duration,
    DurationOrNone,
    DurationOrOff,
    Flag,
    Location,
    Many,
    SettingKind,
    SettingsSection,
    Size,
    Text,
    Verbatim,
    checked,
    size_of,
)
from lakeward.protocol.writers_conflict import WritersConflict, YieldOptions
from lakeward.services.compaction.plan.compaction_type import CompactionType
from lakeward.services.compaction.plan.pay_back import ERASE_WITHIN
from lakeward.services.compaction.plan.planner import is_by_cost, merge_settings
from lakeward.services.services import NAMED, load_sections
from lakeward.storage.storage_of_url import open_storage
from lakeward.table.metadata.compact_after import AUTO, MetadataCompactAfter
from lakeward.table.timeline.timezone import parse_zone


def _metadata_after(value: object) -> object:
    if value in (AUTO, "off"):
        return AUTO if value == AUTO else 0
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError('It is "auto", "off" or a whole number.')
    return value


def _address(text: str) -> None:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535 or (":" in host and not re.fullmatch(r"\[.+\]", host)):
        raise ValueError("An address is written like 127.0.0.1:8490, 0.0.0.0:8490 or [::1]:8490.")


def _glob(text: str) -> None:
    if not text.strip():
        raise ValueError("An empty pattern matches nothing.")
    if text.count("[") != text.count("]"):
        raise ValueError("A '[' without its ']' matches only itself; a set is written like [0-9].")


def _lock_key(text: str) -> None:
    if "/" in text:
        raise ValueError("It is one name, without a slash; the path above it is base_path.")


_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"

MetadataAfter = Annotated[
    MetadataCompactAfter,
    BeforeValidator(_metadata_after),
    WithJsonSchema({"type": ["string", "integer"], "description": "auto, off, or a number of delta commits"}),
    SettingKind("auto, off or a whole number"),
]
OperationMemory = Annotated[
    int,
    BeforeValidator(size_of),
    AfterValidator(check_memory),
    SIZE_SCHEMA,
    SettingKind(f"size from {write_size(OPERATION_BYTES_MIN)}"),
]
Name = Annotated[
    str, Strict(), StringConstraints(pattern=f"^{_NAME}$"), SettingKind("name of letters, digits, dots, - and _")
]
Glob = Annotated[str, Strict(), checked(_glob), SettingKind("pattern in which * and ? match")]
WindowText = Annotated[
    str, Strict(), checked(Window.parse), SettingKind("window like 'Mon-Fri 22:00-06:00 Europe/Berlin'")
]
Zone = Annotated[str, Strict(), checked(parse_zone), SettingKind("zone like UTC, +02:00 or Europe/Berlin")]
Servers = Annotated[str, Strict(), checked(check_servers), SettingKind("servers like zk1:2181,zk2:2181")]
NodePath = Annotated[str, Strict(), checked(check_node_path), SettingKind("path like /hudi/locks")]
LockKey = Annotated[
    str, Strict(), StringConstraints(min_length=1), checked(_lock_key), SettingKind("name without a slash")
]
Address = Annotated[str, Strict(), checked(_address), SettingKind("host:port")]
File = Annotated[Path, SettingKind("path")]
Secret = Annotated[SecretStr, SettingKind("URL")]
Token = Annotated[SecretStr, SettingKind("text of 16 characters or more")]
HostName = Annotated[str, Strict(), StringConstraints(pattern=f"^{_NAME}$"), SettingKind("host name without a port")]

S = TypeVar("S", bound=SettingsSection)
_SectionType: TypeAlias = type[S]

LOCK_WAIT_SECONDS = 60.0
"""How long a command waits for the lock of a table (`--lock-wait`), and a job of the daemon, which is put off then."""

RESTART: dict[str, Any] = {"restart": True}
"""The mark of a key that cannot change while the daemon runs; part of the JSON schema too."""


class Writers(StrEnum):
    """What an operator says about a table's other writers."""

    STOPPED = "stopped"
    SHARE = "share"


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class ServiceSettings(SettingsSection):
    """The daemon itself, and what all its tables share."""

    name: Name = Field(default="lakeward", json_schema_extra=RESTART)
    """Identity of this service. Daemons that share one store share this name; plans are marked with it."""
    listen: Address = Field(default="127.0.0.1:8490", json_schema_extra=RESTART)
    """Address of pages, metrics and health. What other machines can reach needs a token, or a proxy: [http]."""
    jobs_max: Count = 2
    """Jobs that run at once, over all tables."""
    groups: dict[Name, Count] = Field(default={})
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
    log_level: LogLevel = LogLevel.INFO
    """The least important events that are written."""
    state_folder: File = Field(default_factory=state_folder, json_schema_extra=RESTART)
    """The folder for the service's own files: the embedded store, and bundles of failed verifications."""


class HttpSettings(SettingsSection):
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


class MetricsSettings(SettingsSection):
    """What a scrape holds."""

    tables: Literal["few", "all"] | Many[Glob] = "few"
    """Tables that have all series, by globs over their names, 200 at most. `few`: none; each has a dozen series, and
    those that alerts watch while they are not 0. `all`: each."""

    def is_whole(self, *names: str) -> bool:
        """Whether the table of these names has all series."""
        if isinstance(self.tables, str):
            return self.tables == "all"
        return any(fnmatchcase(name, glob) for glob in self.tables for name in names)


class SparkSettings(SettingsSection):
    """The one Spark session that runs the jobs of all tables. It starts with the first job that is for it
    (`service.engine`), and ends after some time without one."""

    master: Text = Field(default="local[*]", json_schema_extra=RESTART)
    """Spark's master URL."""
    remote: Secret | None = Field(default=None, json_schema_extra=RESTART)
    """A Spark Connect server, `sc://host:port`, instead of `master`. One with a token comes from the environment."""
    conf: dict[Text, Verbatim] = Field(default={}, json_schema_extra=RESTART)
    """Spark's own settings, verbatim. Those that hold a secret come from the environment."""

    @property
    def is_named(self) -> bool:
        """Whether the Spark that is meant was named, and is not the default."""
        return bool(self.model_fields_set & {"master", "remote"})

    @property
    def where(self) -> str:
        """The Spark that is meant, without secrets."""
        return "Spark Connect" if self.remote is not None else printable_url(self.master)


class StateSettings(SettingsSection):
    """The store. It remembers, and is never the truth about a table: without it nothing is lost but the past."""

    url: Secret | None = Field(default=None, json_schema_extra=RESTART)
    """`sqlite:///PATH` or `postgresql://…`; not given: SQLite in the state folder. A URL with a password belongs into
    `url_file` or the environment."""
    url_file: File | None = Field(default=None, json_schema_extra=RESTART)
    """A file that holds the URL, for example a mounted secret. Relative to the configuration file."""


class ZooKeeperSettings(SettingsSection):
    """The lock of the provider `zookeeper`: what the writers have as `hoodie.write.lock.zookeeper.*`."""

    url: Servers | None = None
    """The servers, each with its port, and after them a path if all of it lies below one. Hudi itself reads no port
    from hoodie.write.lock.zookeeper.port."""
    base_path: NodePath | None = None
    """The same for all tables, as a rule. Not given: it is derived from the base path of each table, and so is the key,
    as Hudi's ZookeeperBasedImplicitBasePathLockProvider does."""
    lock_key: LockKey | None = None
    """Key of one table's lock, below `base_path`; not given: the table's name (hoodie.table.name), as in Hudi."""


class LockSettings(SettingsSection):
    """Your word about the other writers of the tables, which no file of a table can give."""

    writers: Writers | None = None
    """`stopped`: no other process writes or services the tables. `share`: writers go on, and each of them uses the lock
    provider below. Not given: tables are planned and nothing is written."""
    provider: LockProvider = LockProvider.FILESYSTEM
    """The lock that is shared. `filesystem`: Hudi's file-system lock provider with its default path. `storage`: Hudi's
    storage-based lock provider, for tables in object stores. `zookeeper`: Hudi's ZooKeeper lock providers."""
    zookeeper: ZooKeeperSettings = ZooKeeperSettings()
    """The address and place of that lock."""
    expire: Annotated[Duration, Field(ge=60), SettingKind("duration from 1m")] | None = None
    """After how long the writers let a lock expire (hoodie.write.lock.filesystem.expire, which counts minutes); not
    given: never. For `filesystem` only: the other locks end by themselves when their holder dies."""
    writers_conflict: WritersConflict | None = None
    """How the writers find conflicts, which nothing on a table reveals. `default`: they are of Hudi 1.1 or later and
    have the default strategy. `prefer-writer`: one has PreferWriterConflictResolutionStrategy or early conflict
    detection. `1.0`: one is of Hudi 1.0. Not given: `default` for tables of version 9, `1.0` for those of version 8."""

    _wait_seconds: float = PrivateAttr(default_factory=lambda: LOCK_WAIT_SECONDS)

    def waiting(self, seconds: float) -> LockSettings:
        """These, for a caller that waits for the lock of a table for so long."""
        changed = self.model_copy()
        changed._wait_seconds = seconds
        return changed

    @property
    def yielding(self) -> YieldOptions:
        """How the writers are waited for."""
        return YieldOptions(configured=self.writers_conflict)

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
            return stopped_writers_options(wait_seconds=self._wait_seconds, expire_seconds=self.expire)
        if self.provider is LockProvider.FILESYSTEM:
            return FileSystemLockOptions(wait_seconds=self._wait_seconds, expire_seconds=self.expire)
        if self.provider is LockProvider.STORAGE:
            return StorageLockOptions(wait_seconds=self._wait_seconds)
        assert self.zookeeper.url is not None, "a rule of the configuration"
        return ZooKeeperLockOptions(
            self.zookeeper.url,
            self.zookeeper.base_path,
            self.zookeeper.lock_key,
            wait_seconds=self._wait_seconds,
        )


class DiscoverySettings(SettingsSection):
    """Tables that are found. Those under [[tables]] with a `path` are serviced without being found."""

    roots: Many[Location] = ()
    """Folders below which tables are looked for."""
    include: Many[Glob] = ()
    """Only tables whose base path, or path below its root, matches one of these; none given: all."""
    exclude: Many[Glob] = ()
    """Folders that are not entered and tables that are excluded."""


if TYPE_CHECKING:
    _ServiceKind = JobKind
else:
    _ServiceKind = Literal[NAMED]


class _TableKeys(SettingsSection):
    """How a table is serviced."""

    added_up: ClassVar[Mapping[str, Callable[..., dict[str, str]]]] = {"planner": merge_settings}

    enabled: Flag = True
    """false: it is neither polled nor changed, and stays on the page."""
    group: Name = "default"
    """The named group of tables it belongs to; `service.groups` gives the groups their limits."""
    services: Many[_ServiceKind] = NAMED
    """What is done for it: failed writes rolled back, file groups compacted, indexes held against the rows, old file
    slices cleaned away, the oldest instants archived, a sample of all that verified. Whatever the order here, it is
    done in this one."""
    type: CompactionType = CompactionType.HYBRID
    """What a compaction may choose from: `hybrid`, FULL or LOG or nothing for each file group, whichever pays; `full`;
    `log`."""
    planner: dict[Text, Verbatim] = Field(default={})
    """Settings of the planner by their keys, Hudi's own verbatim. A table adds to what [defaults] says."""
    partitions: Many[Glob] = ()
    """Only partitions of these paths; none given: all."""
    exclude_partitions: Many[Glob] = ()
    """Not the partitions of these paths."""
    interval: Duration = 10.0
    """Between two polls of its timeline."""
    objective: DurationOrOff = 86400.0
    """No committed record stays in logs only for longer than this: a file group that comes close to it is merged with
    its base, whatever the triggers say, and its table goes first. Windows, pauses and budgets hold all the same.
    `none`: it may, and no alert says so; with `type = "log"` there is none."""
    windows: Many[WindowText] = ()
    """Compactions and verifications start only while one of these is open; none given: always. Nothing else moves
    rows."""
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
    verify: Flag = True
    """Read every new file back and merge a sample of its keys a second, slow way before it is published."""
    timezone: Zone | None = None
    """Zone of the machines that write, where hoodie.table.timeline.timezone is LOCAL; not given: inferred where that
    leaves no doubt, which it does not while any zone of the same offset other than UTC sets its clocks."""
    locks: LockSettings | None = None
    """For these tables; what is not given here is as under [locks]."""

    @property
    def names_services(self) -> bool:
        """The configuration names the services, so that one which cannot run is refused and not left out."""
        return "services" in self.model_fields_set

    @property
    def shares_services(self) -> bool:
        """Another service may work on the table, too."""
        return self.foreign_services is ForeignServices.SHARE

    def section(self, of: _SectionType[S]) -> S:
        """The section of a service."""
        return next(section for section in self.sections().values() if isinstance(section, of))

    def sections(self) -> dict[str, SettingsSection]:
        """The sections of services, by their names."""
        return {name: getattr(self, name) for name in load_sections()}

    @property
    def as_hudi_has_it(self) -> dict[str, str]:
        """What it says by Hudi's keys, for services that use what another one is given. Raises `UsageError`."""
        found = dict(self.planner)
        for section in self.sections().values():
            found |= section.as_hudi_has_it
        return found

    @property
    def record_index_location(self) -> str | None:
        """The folder in which Lakeward's record index of the table is kept; None: below the table's `.hoodie`."""
        named = (section.record_index_location for section in self.sections().values())
        return next((location for location in named if location is not None), None)

    @property
    def silent_after(self) -> float | None:
        """Seconds after which a service that is silent counts as dead; None: never. It counts for an attempt of any
        service, and is a key of the one that ends them."""
        silent_after: float | None = getattr(
            self.sections().get(JobKind.ROLLBACK), "silent_after", SILENT_AFTER_SECONDS
        )
        return silent_after

    @property
    def objective_kept(self) -> float | None:
        """The objective, where Lakeward keeps it: no LOG keeps it."""
        is_own = JobKind.COMPACTION in self.services and self.type is not CompactionType.LOG
        return self.objective_under(self.planner) if is_own else None

    def objective_under(self, planner: Mapping[str, str]) -> float | None:
        """The objective under those settings of the planner: where what pays is merged, the default is longer."""
        is_default = "objective" not in self.model_fields_set and is_by_cost(planner)
        return ERASE_WITHIN if is_default else self.objective

    @property
    def sources_retire(self) -> bool:
        """A clean of Lakeward's takes what a log compaction has merged out of slices of the layout `lsm_tree`."""
        return JobKind.CLEAN in self.services and any(each.retires_sources for each in self.sections().values())


if TYPE_CHECKING:

    class TableSettings(_TableKeys):
        """With the sections of services."""
else:
    TableSettings = create_model(
        "TableSettings",
        __base__=_TableKeys,
        __doc__=_TableKeys.__doc__,
        **{
            name: (section, Field(default=section(), description=f"What is given here overrides [defaults.{name}]."))
            for name, section in load_sections().items()
        },
    )


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


class Settings(SettingsSection):
    """The whole configuration."""

    service: ServiceSettings = Field(default_factory=ServiceSettings)  # asks the environment where the state folder is
    http: HttpSettings = HttpSettings()
    metrics: MetricsSettings = MetricsSettings()
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

    def table_alone(self, base_path: str, *, timezone: str | None, is_given: bool) -> TableSettings:
        """The same for who names one table and runs no daemon.

        Args:
            timezone: the operator's word, which goes before the file's; None: there is none.
            is_given: there is a file; else no objective is known, which is a daemon's promise.
        """
        changed: dict[str, Any] = {} if is_given else {"objective": None}
        if timezone is not None:
            changed["timezone"] = timezone
        return self.table(self.name_of(base_path), base_path).model_copy(update=changed)

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


def base_path_of(location: str) -> str:
    """The name that the daemon gives a table without one."""
    return open_storage(location)[1]
