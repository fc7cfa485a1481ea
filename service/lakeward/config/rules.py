"""What one key of the configuration alone cannot say: rules between keys, and the planner's own checks.

Touches: nothing.
Keeps:   1. a broken rule names the keys it is about, the one to change first;
         2. overrides are checked on top of [defaults]; a table named outright, with all that matches it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from lakeward.base.did_you_mean import did_you_mean
from lakeward.base.errors import LakewardError
from lakeward.base.quantities import write_duration, write_size
from lakeward.config.choices import LockProvider
from lakeward.config.listen_address import is_loopback
from lakeward.config.settings import (
    KeyPath,
    LockSettings,
    Settings,
    TableSettings,
    base_path_of,
)
from lakeward.config.window import Window, longest_closed
from lakeward.services.compaction.plan.objective import due_from
from lakeward.services.compaction.plan.planner import planner_of, trigger_of
from lakeward.services.compaction.plan.selection import GroupFilter

TOKEN_LENGTH_MIN = 16

STORE_SCHEMES = ("sqlite", "postgresql")


@dataclass(frozen=True, slots=True)
class BrokenRule:
    about: tuple[KeyPath, ...]
    """The keys that do not go together; the first that is given is the place to look."""
    what: str
    why: str
    remedy: str


def find_broken_rules(settings: Settings) -> Iterator[BrokenRule]:
    """All of them; what [defaults] break, every override on top of them breaks again."""
    yield from _of_the_daemon(settings)
    yield from _of_the_locks(("locks",), settings.locks)
    yield from _of_identities(settings)
    layers: list[tuple[KeyPath, Mapping[KeyPath, KeyPath], TableSettings]] = [
        (("defaults",), _sources(("defaults",), settings.defaults), settings.defaults)
    ]
    for index, override in enumerate(settings.tables):
        at: KeyPath = ("tables", index)
        if override.locks is not None:
            named = override.identity
            locks = settings.locks.with_given(override.locks) if named is None else settings.table(*named).locks
            assert locks is not None, "Settings.table completes the locks"
            yield from _of_the_locks((*at, "locks"), locks)
        if override.identity is not None:
            name, path = override.identity
            layers.append((at, settings.table_sources(name, path), settings.table(name, path)))
        else:
            both = _sources(("defaults",), settings.defaults) | _sources(at, override)
            layers.append((at, both, settings.defaults.with_given(override)))
    for at, sources, table in layers:
        yield from _of_a_table(settings, at, sources, table)


def _of_the_daemon(settings: Settings) -> Iterator[BrokenRule]:
    if {"master", "remote"} <= settings.spark.model_fields_set and settings.spark.remote is not None:
        yield BrokenRule(
            (("spark", "remote"), ("spark", "master")),
            "spark.master and spark.remote are both given.",
            "A session is either started here with a master, or is one on a Spark Connect server.",
            "Keep one of the two.",
        )
    if settings.spark.conf.get("spark.speculation", "false").lower() == "true":
        yield BrokenRule(
            (("spark", "conf", "spark.speculation"),),
            "spark.speculation is on.",
            "A speculative copy of a task merges the same file slice a second time, only to be thrown away.",
            "Leave it out.",
        )
    yield from _of_the_door(settings)
    scheme = settings.store_url.partition(":")[0].partition("+")[0]
    if scheme not in STORE_SCHEMES:
        yield BrokenRule(
            (("state", "url"), ("state", "url_file")),
            "state.url names no store that is known.",
            f"It does not begin with {' or '.join(STORE_SCHEMES)} and a colon.",
            "Write sqlite:///PATH or postgresql://USER@HOST/DATABASE.",
        )
    if "locks" in settings.defaults.model_fields_set:
        yield BrokenRule(
            (("defaults", "locks"),),
            "[defaults] has no locks.",
            "What holds for all tables is said in one place.",
            "Write it under [locks].",
        )


def _of_the_door(settings: Settings) -> Iterator[BrokenRule]:
    listen, token = settings.service.listen, settings.http_token
    if token is not None and (
        len(token) < TOKEN_LENGTH_MIN or not token.isascii() or not token.isprintable() or " " in token
    ):
        yield BrokenRule(
            (("http", "token_file"), ("http", "token")),
            "The token is none.",
            f"It has fewer than {TOKEN_LENGTH_MIN} characters, or some that cannot stand in a header.",
            "Make one with: openssl rand -hex 24",
        )
    is_guarded = token is not None or settings.http.token_file is not None or settings.http.behind_proxy
    if not is_guarded and not is_loopback(listen):
        yield BrokenRule(
            (("service", "listen"), ("http", "token_file"), ("http", "behind_proxy")),
            f"{listen} can be reached by other machines, and no request is asked for a token.",
            "Pages and metrics show names, paths and errors of all tables, and a reload can be asked for.",
            "Name a token's file as http.token_file, set http.behind_proxy if a proxy asks, or listen on 127.0.0.1.",
        )


def _of_the_locks(at: KeyPath, locks: LockSettings) -> Iterator[BrokenRule]:
    zookeeper, place = locks.zookeeper, (*at, "zookeeper")
    if locks.provider is LockProvider.ZOOKEEPER and zookeeper.url is None:
        yield BrokenRule(
            ((*at, "provider"), (*place, "url")),
            "ZooKeeper keeps the lock, and its servers are not given.",
            "There is no server that could be guessed.",
            "Set locks.zookeeper.url to what the writers have as hoodie.write.lock.zookeeper.url.",
        )
    if zookeeper.url is not None and "provider" not in locks.model_fields_set:
        yield BrokenRule(
            ((*place, "url"), (*at, "provider")),
            "ZooKeeper's servers are given, and not that ZooKeeper keeps the lock.",
            "Another lock than that of the writers would be taken.",
            'Set locks.provider to "zookeeper", or leave locks.zookeeper out.',
        )
    if zookeeper.lock_key is not None and zookeeper.base_path is None:
        yield BrokenRule(
            ((*place, "lock_key"), (*place, "base_path")),
            "locks.zookeeper.lock_key is given without base_path.",
            "Where the path is derived from the table's base path, so is the key.",
            "Give both, as the writers do for Hudi's ZookeeperBasedLockProvider, or neither.",
        )


def _of_identities(settings: Settings) -> Iterator[BrokenRule]:
    names: dict[str, KeyPath] = {}
    paths: dict[str, KeyPath] = {}
    for index, override in enumerate(settings.tables):
        at: KeyPath = ("tables", index)
        if override.match is None and override.path is None:
            yield BrokenRule(
                (at, (*at, "match"), (*at, "path")),
                "This entry of [[tables]] says of no table that it is meant.",
                "It has neither match nor path" + (", and a name alone finds nothing." if override.name else "."),
                'Add match = "PATTERN" for all tables that match, or path = "/data/orders" for one.',
            )
            continue
        if override.match is not None:
            for key in ("path", "name"):
                if getattr(override, key) is not None:
                    yield BrokenRule(
                        ((*at, key), (*at, "match")),
                        f"match and {key} stand in one entry of [[tables]].",
                        "match speaks of all tables that match, path with name of one table.",
                        "Make two entries of it.",
                    )
            continue
        assert override.path is not None
        path = base_path_of(override.path)
        for seen, value, key in ((names, override.name, "name"), (paths, path, "path")):
            if value is None:
                continue
            if value in seen:
                yield BrokenRule(
                    ((*at, key), seen[value]),
                    f"Two entries of [[tables]] have the {key} {value}.",
                    "A table has one name and one entry with its path.",
                    "Put the keys of both into one entry, or correct one of them.",
                )
            seen.setdefault(value, (*at, key))


def _of_a_table(
    settings: Settings, at: KeyPath, sources: Mapping[KeyPath, KeyPath], table: TableSettings
) -> Iterator[BrokenRule]:
    def about(*keys: str) -> tuple[KeyPath, ...]:
        """What this entry gives comes first."""
        places = [sources.get((key,), (*at, key)) for key in keys]
        return tuple(sorted(places, key=lambda place: place[: len(at)] != at))

    if table.memory > settings.service.memory:
        yield BrokenRule(
            (*about("memory"), ("service", "memory")),
            f"memory, {write_size(table.memory)}, is more than all operations together may hold, "
            f"{write_size(settings.service.memory)}.",
            "No job of such a table could ever start.",
            "Lower memory or raise service.memory.",
        )
    if table.group != "default" and table.group not in settings.service.groups:
        unlimited = "service.groups does not name it, so it would have no limit."
        yield BrokenRule(
            (*about("group"), ("service", "groups")),
            f"There is no group {table.group}.",
            did_you_mean(table.group, settings.service.groups, otherwise=unlimited),
            f"Add it there: groups = {{ {table.group} = 1 }} under [service].",
        )
    yield from _of_the_planner(at, sources, table)
    yield from _of_the_services(at, sources, table)
    if ("objective",) in sources and table.objective_kept is not None:
        yield from _of_the_objective(about, sources, table, table.objective_kept)


def _of_the_objective(
    about: Callable[..., tuple[KeyPath, ...]],
    sources: Mapping[KeyPath, KeyPath],
    table: TableSettings,
    objective: float,
) -> Iterator[BrokenRule]:
    """Other settings must let the objective be kept, and it must leave their numbers an effect. The default is held
    against nothing."""
    if table.interval > objective:
        yield BrokenRule(
            about("objective", "interval"),
            f"An objective of {write_duration(objective)} is shorter than interval, {write_duration(table.interval)}.",
            "A commit is seen at the next poll, up to that much later, and its records are in logs for as long.",
            f"Set objective to more than {write_duration(table.interval)}, or interval to less.",
        )
    closed = longest_closed([Window.parse(text) for text in table.windows])
    if closed > objective:
        yield BrokenRule(
            about("objective", "windows"),
            f"No window is open for up to {write_duration(closed)}, and no record is to be in logs only for more than "
            f"{write_duration(objective)}.",
            "A compaction starts only while a window is open: what is committed just after one has closed waits for "
            f"{write_duration(closed)}, {write_duration(closed - objective)} longer than the objective.",
            f"Set objective to {write_duration(closed)} or more, or add windows.",
        )
    try:
        trigger = trigger_of(table.planner)
    except LakewardError:
        return  # It is reported with the planner's settings.
    due = due_from(objective)
    if trigger is not None and trigger.counts_seconds and trigger.seconds >= due:
        key = "hoodie.compact.inline.max.delta.seconds"
        planner = tuple(sources[place] for place in (("planner", key),) if place in sources)
        yield BrokenRule(
            (*about("objective"), *planner),
            f"A compaction falls due by time after {write_duration(trigger.seconds)}, and by the objective of "
            f"{write_duration(objective)} before that.",
            f"A file group falls due when nine tenths of the objective are over: 0.9 x {write_duration(objective)} = "
            f"{write_duration(due)}. So {key} never counts.",
            f"Set {key} to less than {write_duration(due)}, or raise objective.",
        )


def _of_the_services(at: KeyPath, sources: Mapping[KeyPath, KeyPath], table: TableSettings) -> Iterator[BrokenRule]:
    try:
        beside: Mapping[str, str] = table.as_hudi_has_it
    except LakewardError:
        beside = table.planner  # the section that is wrong says so
    for name, section in table.sections().items():
        for problem in section.problems(beside):
            places = tuple(sources.get((name, key), (*at, name, key)) for key in problem.keys)
            yield BrokenRule(places, problem.what, problem.why, problem.remedy)


def _of_the_planner(at: KeyPath, sources: Mapping[KeyPath, KeyPath], table: TableSettings) -> Iterator[BrokenRule]:
    def problem(planner: Mapping[str, str]) -> LakewardError | None:
        try:
            planner_of(table.type, GroupFilter(), planner)
        except LakewardError as error:
            return error
        return None

    alone = [(key, error) for key, value in table.planner.items() if (error := problem({key: value})) is not None]
    for key, error in alone:
        place = sources.get(("planner", key), (*at, "planner", key))
        yield BrokenRule((place,), error.what, error.why, error.remedy)
    if not alone and (together := problem(table.planner)) is not None:
        places = tuple(sources.get(("planner", key), (*at, "planner", key)) for key in table.planner)
        yield BrokenRule(places, together.what, together.why, together.remedy)


def _sources(at: KeyPath, layer: TableSettings) -> dict[KeyPath, KeyPath]:
    planner: dict[KeyPath, KeyPath] = {("planner", key): (*at, "planner", key) for key in layer.planner}
    services: dict[KeyPath, KeyPath] = {
        (name, key): (*at, name, key) for name, section in layer.sections().items() for key in section.model_fields_set
    }
    return planner | services | {(key,): (*at, key) for key in layer.model_fields_set - {"planner"}}
