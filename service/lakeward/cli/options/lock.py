"""The options about the table's other writers, and the locks that result.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NoReturn

import typer

from lakeward.base.did_you_mean import did_you_mean
from lakeward.base.errors import UsageError
from lakeward.base.quantities import parse_duration
from lakeward.cli.configured_table import ConfiguredTable
from lakeward.cli.options.values import parse_option
from lakeward.cli.verb_help import SharedPanel
from lakeward.config.choices import LockProvider
from lakeward.config.settings import LOCK_WAIT_SECONDS, LockSettings, Writers, ZooKeeperSettings
from lakeward.protocol.lock.file_system_lock import FileSystemLockOptions
from lakeward.protocol.lock.lock_choice import SHARING_OPTIONS, provider_options
from lakeward.protocol.lock.storage_lock import StorageLockOptions
from lakeward.protocol.lock.zookeeper_options import ZooKeeperLockOptions, check_node_path, check_servers

STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class LockArguments:
    """What a command line says about the table's other writers: a group of options."""

    writers: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=SharedPanel.WRITERS,
            metavar=STOPPED,
            help="Confirm with 'stopped' that no other writer or table service is at work on this table now. A verb "
            "that writes needs this, or --lock, or what the configuration says under locks.",
        ),
    ] = None
    lock: Annotated[
        LockProvider | None,
        typer.Option(
            rich_help_panel=SharedPanel.WRITERS,
            help="Share the table with its writers through Hudi's lock provider of that name. They must use it too, "
            "with optimistic concurrency control and lazy clean-up of failed writes.",
        ),
    ] = None
    lock_zookeeper: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=SharedPanel.WRITERS,
            metavar="HOST:PORT[,HOST:PORT]",
            help="With --lock zookeeper: the servers, as the writers have them in hoodie.write.lock.zookeeper.url.",
        ),
    ] = None
    lock_zookeeper_path: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=SharedPanel.WRITERS,
            metavar="PATH",
            help="The writers' hoodie.write.lock.zookeeper.base_path. Without it the lock is where Hudi's "
            "ZookeeperBasedImplicitBasePathLockProvider has it.",
        ),
    ] = None
    lock_zookeeper_key: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=SharedPanel.WRITERS,
            metavar="KEY",
            help="The writers' hoodie.write.lock.zookeeper.lock_key; default: the name of the table.",
        ),
    ] = None
    lock_wait: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=SharedPanel.WRITERS,
            metavar="DURATION",
            help="How long to wait for the table lock; default 60s.",
        ),
    ] = None
    lock_expire: Annotated[
        float | None,
        typer.Option(
            rich_help_panel=SharedPanel.WRITERS,
            metavar="MINUTES",
            help="After how many minutes your writers let a lock expire "
            "(hoodie.write.lock.filesystem.expire). Without it a foreign lock never expires.",
        ),
    ] = None

    def says_stopped(self, opened: ConfiguredTable) -> bool:
        """Whether the operator says that no writer is at work, here or in the configuration."""
        return self.writers is not None or (self.lock is None and opened.locks.writers is Writers.STOPPED)

    def over(self, opened: ConfiguredTable, *, dry_run: bool) -> LockSettings:
        """What is said here, and else in the configuration. Raises `UsageError` where neither says enough."""
        configured = opened.locks
        if self.writers is not None and self.writers != STOPPED and (meant := did_you_mean(self.writers, [STOPPED])):
            raise UsageError(
                f"--writers cannot be {self.writers}.",
                why=meant,
                remedy=f"Write --writers {STOPPED}, if no other writer or table service is at work on this table.",
            )
        if self.writers not in (None, STOPPED):
            _refuse_statement(
                f"--writers {self.writers} cannot be typed: for writers that go on, name the lock that they share, "
                "--lock filesystem, --lock storage or --lock zookeeper.",
                configured,
            )
        if self.writers is not None and self.lock is not None:
            _refuse_statement("Give one of the two.", configured)
        if self.writers is None and self.lock is None and configured.writers is None and not dry_run:
            _refuse_statement("Say how the table's other writers behave, in one way.", configured)
        said: dict[str, Any] = {}
        if self.writers is not None or self.lock is not None:
            said["writers"] = Writers.SHARE if self.writers is None else Writers.STOPPED
        if self.lock is not None:
            said["provider"] = self.lock
        if self.lock_expire is not None:
            said["expire"] = self.lock_expire * 60
        named = {"url": self.lock_zookeeper, "base_path": self.lock_zookeeper_path, "lock_key": self.lock_zookeeper_key}
        place = {key: value for key, value in named.items() if value is not None}
        if place:
            said["zookeeper"] = _zookeeper(configured.zookeeper, place)
        wait = parse_option(parse_duration, "--lock-wait", self.lock_wait, LOCK_WAIT_SECONDS)
        locks = configured.model_copy(update=said).waiting(wait)
        if locks.writers is Writers.SHARE:
            _check_provider(locks, place, self.lock_expire)
        return locks


def _zookeeper(configured: ZooKeeperSettings, place: Mapping[str, str]) -> ZooKeeperSettings:
    parse_option(check_servers, "--lock-zookeeper", place.get("url"), None)
    parse_option(check_node_path, "--lock-zookeeper-path", place.get("base_path"), None)
    return configured.model_copy(update=place)


def _check_provider(locks: LockSettings, place: Mapping[str, str], expire_minutes: float | None) -> None:
    """The options of one provider do not go with another, and ZooKeeper needs its servers."""
    if expire_minutes is not None and locks.provider is not LockProvider.FILESYSTEM:
        raise UsageError(
            f"--lock-expire does not go with --lock {locks.provider}.",
            why="A lock there does not grow old: it ends by itself when its holder is gone.",
            remedy="Leave it out.",
        )
    if locks.provider is not LockProvider.ZOOKEEPER:
        if place:
            _refuse_statement("--lock-zookeeper goes with --lock zookeeper.", locks)
        return
    if locks.zookeeper.url is None:
        _refuse_statement("--lock zookeeper needs --lock-zookeeper HOST:PORT, or locks.zookeeper.url.", locks)
    if locks.zookeeper.lock_key is not None and locks.zookeeper.base_path is None:
        _refuse_statement("--lock-zookeeper-key needs --lock-zookeeper-path.", locks)


def _refuse_statement(what: str, locks: LockSettings) -> NoReturn:
    servers, path = locks.zookeeper.url or "HOST:PORT", locks.zookeeper.base_path or "/PATH"
    place = ZooKeeperLockOptions(servers, path, locks.zookeeper.lock_key)
    ways = [
        f"{_options_text(provider_options(place))} (pass --lock zookeeper --lock-zookeeper {servers} and the same path)"
    ]
    if locks.provider is not LockProvider.ZOOKEEPER:
        ways.insert(0, f"{_options_text(provider_options(FileSystemLockOptions()))} (pass --lock filesystem)")
        ways.insert(
            1, f"in object stores {_options_text(provider_options(StorageLockOptions()))} (pass --lock storage)"
        )
    raise UsageError(
        what,
        why="A service that writes beside a writer that does not share its lock can lose that writer's rows; "
        "that no writer is seen proves nothing.",
        remedy="Stop the writers and pass --writers stopped; or let all of them share a lock, with "
        f"{_options_text(SHARING_OPTIONS)} and {'; or '.join(ways)}.",
    )


def _options_text(options: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in options.items())
