"""From a TOML file, the environment and flags to settings; and everything that is wrong with them, at once.

    defaults < file < environment LAKEWARD__SECTION__KEY < flags

Every value remembers where it came from. A wrong value is reported and taken out, so that the rules between
keys are still asked of the others, and an operator who corrects a file does it once.

A value from the environment or a flag is text where its key takes text, and otherwise written as in TOML:
`LAKEWARD__SERVICE__JOBS_MAX=4`, `LAKEWARD__DISCOVERY__ROOTS='["/data"]'`. Tables of other people's keys (`planner`,
`clean.hudi`, `spark.conf`) are taken as a whole there; in the file, `spark.executor.memory` may stand quoted or not.

Touches: the file, and those that state.url_file and http.token_file name. Reads only.
Keeps:   1. a secret in the file itself is refused, and no secret is ever part of a report;
         2. settings come only from an input without a problem.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import orjson
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from lakeward.base.did_you_mean import did_you_mean
from lakeward.base.errors import ConfigurationError
from lakeward.base.printable import HIDDEN, names_secret, printable_url
from lakeward.base.quantities import write_duration
from lakeward.config.reference import key_of, kind_of, model_of
from lakeward.config.rules import BrokenRule, find_broken_rules
from lakeward.config.settings import KeyPath, Settings, TableOverride
from lakeward.config.toml_positions import Position, find_positions

PREFIX = "LAKEWARD__"
"""Prefix of environment variables that set a key."""

VERBATIM = frozenset({"planner", "conf", "hudi"})
"""Tables whose keys are other people's: a dotted one is one key."""

_OTHER_NAMES = {"overrides": "[[tables]]", "override": "[[tables]]", "jobs": "service.jobs_max"}
"""What a section is looked for by, and what has it."""

_RETIRED: Mapping[KeyPath, str] = {
    ("service", "tick"): "What is due is looked at each second.",
    ("service", "log_format"): "A terminal shows a log for people; elsewhere each event is a line of JSON.",
    ("spark", "local_below"): 'Write engine = "auto", "spark" or "local" under [service].',
    ("spark", "pool"): "Jobs run in the scheduler pool lakeward.",
    ("spark", "idle_stop"): "A session ends when no job has used it for 10 minutes.",
    ("state", "lease"): "A lease lasts a minute.",
    ("discovery", "interval"): "Tables are searched for once a minute.",
    ("discovery", "depth"): "Tables are found down to 4 folders below a root: name roots nearer to deeper ones.",
    **{
        (*locks, *key): instead
        for locks in (("locks",), ("tables", "locks"))
        for key, instead in {
            ("wait",): "Commands take --lock-wait; a job of the daemon is put off after a minute.",
            ("yield_to_writers",): "A write is waited for for a minute; `lakeward compact` takes --yield-to-writers.",
            ("yield_then",): "After that the partitions in which the write is at work are left out.",
            ("zookeeper", "session_timeout"): "A session lasts a minute, within the bounds of the servers.",
        }.items()
    },
    **{
        (of, *key): instead
        for of in ("defaults", "tables")
        for key, instead in {
            ("replan",): "A table that does not change is planned again after 15 minutes.",
            ("plan_expiry",): "A plan of Lakeward expires after 6 hours; `lakeward unschedule` takes it back at once.",
            ("bloom_filter_max",): "A bloom filter takes up to 16MiB; `lakeward compact` takes --bloom-filter-max.",
            ("verification_interval",): "A sample is verified once a day; `lakeward verify` looks at once.",
            ("verification_groups",): "A sample has 4 file groups; `lakeward verify` takes --merge-sample.",
            ("listing",): "Object stores are listed by the metadata table, and file systems by their folders.",
            ("retry_first",): "The pause after a failure begins with 30 seconds.",
            ("retry_max",): "The pause after a failure grows to 30 minutes.",
            ("failures_max",): "A table or a file group is parked after 5 failures in a row.",
            ("parked_for",): "What is parked is tried again after a day; `lakeward resume` does so at once.",
            ("poll_deadline",): "A poll is given up after a minute.",
            ("plan_deadline",): "A plan is given up after 5 minutes.",
            ("job_deadline",): "A job has 30 minutes, and a second more for each 8 MiB that it reads.",
            ("clean", "after"): "A clean is due once slices could have gone for 5 commits.",
            ("archive", "after"): "The timeline is archived once it has 5 commits more than it may have.",
            ("archive", "min_commits"): 'Write hudi = { "hoodie.keep.min.commits" = 20 } under archive.',
            ("archive", "max_commits"): 'Write hudi = { "hoodie.keep.max.commits" = 30 } under archive.',
            ("rollback", "after"): "A pending write is looked at once its timeline has rested for 10 minutes.",
            ("index", "update_after"): "A commit waits up to a minute; `lakeward index update` takes it in at once.",
            ("index", "update_after_commits"): "Eight commits are taken in at once.",
            ("index", "verify_every"): "An index is checked once a day; `lakeward index verify` checks it at once.",
            ("index", "verify_merged"): "A check merges up to 16 GiB; `lakeward index verify --all` merges all.",
            ("index", "verify_entries"): "A check reads up to 20 million entries.",
            ("index", "verify_keys"): "A check draws 4,603 rows and as many entries.",
            ("index", "record", "buckets"): "Give --buckets to `lakeward index build`.",
            ("index", "record", "hash"): "Give --hash to `lakeward index build`.",
            ("index", "record", "scaling"): "Give --scaling to `lakeward index build`.",
            ("index", "record", "entries_max"): "Give --bucket-entries to `lakeward index build`.",
            ("index", "record", "lookup"): "Each file is searched or scanned, by the number of keys.",
        }.items()
    },
}
"""Keys that are no more, and what holds or is written in their place. Those of [[tables]] stand without a number."""

_SHOWN_MAX = 60
"""Characters of a wrong value that are shown."""


class Layer(StrEnum):
    FILE = "file"
    ENVIRONMENT = "environment"
    FLAG = "flag"


@dataclass(frozen=True, slots=True)
class Origin:
    """The place that a value came from; one that came from nowhere is a default."""

    layer: Layer
    where: str
    """`lakeward.toml:12:3`, `LAKEWARD__SERVICE__LISTEN`, `--set service.listen`."""


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    where: str
    """path:line:column, the environment variable or the flag."""
    what: str
    why: str
    remedy: str

    def __str__(self) -> str:
        return "\n    ".join(part for part in (f"{self.where}: {self.what}", self.why, self.remedy) if part)


@dataclass(frozen=True, slots=True)
class Reading:
    """What came of reading a configuration."""

    settings: Settings | None
    """None when there is a problem."""
    problems: tuple[ConfigProblem, ...] = ()
    origins: Mapping[KeyPath, Origin] = field(default_factory=dict)
    """The origin of every value that was given."""


def load_settings(
    path: Path | None, environ: Mapping[str, str], overrides: Mapping[str, str] | None = None
) -> Settings:
    """The settings. Raises `ConfigurationError`, with a note for each problem."""
    reading = read_config(path, environ, overrides)
    if reading.settings is not None:
        return reading.settings
    raise wrong_configuration(path, reading.problems)


def wrong_configuration(path: Path | None, problems: Sequence[ConfigProblem]) -> ConfigurationError:
    """The error with which nothing is started; it has a note for each problem."""
    error = ConfigurationError(
        f"{path or 'The configuration'} has {len(problems)} {'problem' if len(problems) == 1 else 'problems'}.",
        why="Nothing was started with a configuration that may mean something else than it says.",
        remedy="Correct what is named below; `lakeward config check` says whether all is well.",
    )
    for problem in problems:
        error.add_note(str(problem))
    return error


def no_tables(path: Path | None) -> ConfigProblem:
    """The problem of a configuration that is right, and leaves nothing to do."""
    return ConfigProblem(
        f"{path or 'the configuration'}",
        "No table is named, and no folder in which to look for tables.",
        "There would be nothing to service, which would look as if all were well.",
        'Write [discovery] roots = ["/data/lake"], or a [[tables]] with a path.',
    )


def read_config(path: Path | None, environ: Mapping[str, str], overrides: Mapping[str, str] | None = None) -> Reading:
    """Settings or problems.

    Args:
        path: None: defaults, environment and flags only.
        overrides: what flags say, by key, `{"service.listen": "0.0.0.0:8490"}`.
    """
    reader = _Reader(path)
    if path is not None:
        reader.file(path)
    for name in sorted(environ):
        if name.startswith(PREFIX):
            keys = tuple(name.removeprefix(PREFIX).lower().split("__"))
            reader.override(keys, environ[name], Origin(Layer.ENVIRONMENT, name))
    for key, text in (overrides or {}).items():
        reader.override(tuple(key.split(".")), text, Origin(Layer.FLAG, f"--set {key}"))
    return reader.reading()


class _Reader:
    """Layers values, and collects what is wrong."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._values: dict[str, Any] = {}
        self._origins: dict[KeyPath, Origin] = {}
        self._problems: list[tuple[Origin, ConfigProblem]] = []
        self._wrong: list[KeyPath] = []
        """Taken out; a rule about one of these is not asked."""

    # ------------------------------------------------------------------------------------------------ layers

    def file(self, path: Path) -> None:
        try:
            data = path.read_bytes()
        except OSError as error:
            self._report(
                str(path),
                "The configuration cannot be read.",
                f"{error.strerror}.",
                "Give the path of a TOML file that this user may read.",
            )
            return
        try:
            text = data.decode()
            document = tomllib.loads(text)
        except UnicodeDecodeError as error:
            before = data[: error.start]
            line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
            self._report(f"{path}:{line}:{column}", "This is not UTF-8.", "TOML is.", "Save the file as UTF-8.")
        except tomllib.TOMLDecodeError as error:
            message, position = _syntax_error(str(error), text)
            self._report(
                f"{path}:{position}",
                "This is not TOML.",
                f"{message}.",
                "Text stands in quotes, a list in brackets, and a key once; https://toml.io shows how.",
            )
        except RecursionError:
            self._report(f"{path}:1:1", "This is nested too deeply.", "", "No setting needs more than three levels.")
        else:
            self._values = _joined(document)
            for place, position in find_positions(text).items():
                self._origins.setdefault(_joined_path(place), Origin(Layer.FILE, f"{path}:{position}"))
            self._refuse_secrets()

    def override(self, keys: tuple[str, ...], text: str, origin: Origin) -> None:
        model: type[BaseModel] = Settings
        for depth, key in enumerate(keys):
            place = keys[: depth + 1]
            found = model.model_fields.get(key)
            if found is None:
                self._report_unknown(place, model, origin)
                return
            if place == ("tables",):
                self._report(
                    origin,
                    "[[tables]] cannot be set here.",
                    "Which entry would be meant depends on the file.",
                    "Write it into the file; LAKEWARD__DEFAULTS__… is for what holds for all tables.",
                )
                return
            inner = model_of(found.annotation)
            if depth == len(keys) - 1 and inner is None:
                self._set(keys, _value_of(found.rebuild_annotation(), text), origin)
                return
            if inner is None:
                self._report(
                    origin,
                    f"{_format_key(keys)} is no key.",
                    f"What follows {_format_key(place)} is no key of Lakeward.",
                    f"Set {_format_key(place)} as a whole, written as a TOML inline table.",
                )
                return
            model = inner
        self._report(
            origin, f"{_format_key(keys)} is a section.", "A section has no value of its own.", "Name one of its keys."
        )

    def _set(self, keys: tuple[str, ...], value: Any, origin: Origin) -> None:
        section = self._values
        for key in keys[:-1]:
            inner = section.setdefault(key, {})
            if not isinstance(inner, dict):
                return  # the file has something else here, which is reported
            section = inner
        if keys[-1] in VERBATIM and isinstance(value, dict):
            value = _flat(value)
        below = section.get(keys[-1])
        if isinstance(value, dict) and isinstance(below, dict):
            self._origins |= {(*keys, key): origin for key in value}
            value = below | value
        else:
            self._origins = {place: at for place, at in self._origins.items() if not _begins(place, keys)}
        self._origins[keys] = origin
        section[keys[-1]] = value

    def _refuse_secrets(self) -> None:
        """Refuse secrets in the file, which is read by more people than should know them."""
        for section, key in (("state", "url"), ("spark", "remote"), ("spark", "master")):
            value = _at(self._values, (section, key))
            if isinstance(value, str) and printable_url(value) != value:
                by_file = "write the URL into a file of its own and name that in state.url_file, or " * (key == "url")
                remedy = f"{by_file}set {PREFIX}{section.upper()}__{key.upper()}."
                self._refuse_secret((section, key), f"{section}.{key} holds a secret.", remedy)
        if _at(self._values, ("http", "token")) is not None:
            remedy = f"name a file that holds it as http.token_file, or set {PREFIX}HTTP__TOKEN."
            self._refuse_secret(("http", "token"), "http.token is a secret.", remedy)
        conf = _at(self._values, ("spark", "conf"))
        for key in [key for key in conf if names_secret(key)] if isinstance(conf, dict) else ():
            remedy = f'set {PREFIX}SPARK__CONF=\'{{ "{key}" = "…" }}\', or give Spark a credential provider.'
            self._refuse_secret(("spark", "conf", key), f"{key} holds a secret.", remedy)

    def _refuse_secret(self, place: KeyPath, what: str, remedy: str) -> None:
        why = "This file is copied, shown and kept in repositories."
        self._report(self._origin(place), what, why, f"Take it out: {remedy}")
        self._take_out(place)

    # ---------------------------------------------------------------------------------------------- the result

    def reading(self) -> Reading:
        settings = self._with_secret(self._validated(), "state", "url", "URL of the store")
        settings = self._with_secret(settings, "http", "token", "token")
        for broken in find_broken_rules(settings):
            self._report_broken(broken)
        problems = tuple(problem for _, problem in sorted(self._problems, key=lambda pair: _order(pair[1].where)))
        return Reading(None if problems else settings, problems, self._origins)

    def _validated(self) -> Settings:
        """Settings from what is right; the rest is reported and taken out."""
        while True:
            try:
                return Settings.model_validate(self._values)
            except ValidationError as invalid:
                before = deepcopy(self._values)
                for error in invalid.errors(include_url=False):
                    self._report_invalid(error)
                assert self._values != before, "what is reported is taken out"

    def _with_secret(self, settings: Settings, section: str, key: str, what: str) -> Settings:
        """The settings with the value out of the file that holds it, unless a later layer gives the value itself."""
        of = getattr(settings, section)
        file = getattr(of, f"{key}_file")
        if file is None:
            return settings
        origin = self._origin((section, f"{key}_file"))
        own_origin = self._origins.get((section, key))
        if own_origin is not None and own_origin.layer is not origin.layer:
            layers = list(Layer)
            if layers.index(own_origin.layer) > layers.index(origin.layer):
                return settings  # a later layer says which
        elif own_origin is not None:
            both = f"{section}.{key} and {section}.{key}_file are both given."
            self._report(origin, both, f"Either would be the {what}.", "Keep one.")
            return settings
        if origin.layer is Layer.FILE and self._path is not None:
            file = self._path.parent / file
        try:
            value = file.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "It is not text"
            remedy = f"Let it hold the {what}, and nothing else."
            self._report(origin, f"{file} cannot be read.", f"{why}.", remedy)
            return settings
        given = {name: getattr(of, name) for name in of.model_fields_set} | {key: value}
        return settings.model_copy(update={section: type(of).model_validate(given)})

    # ----------------------------------------------------------------------------------------------- problems

    def _report(self, where: str | Origin, what: str, why: str, remedy: str) -> None:
        origin = where if isinstance(where, Origin) else Origin(Layer.FILE, where)
        problem = ConfigProblem(origin.where, what, why, remedy)
        if (origin, problem) not in self._problems:  # overrides break again what [defaults] break
            self._problems.append((origin, problem))

    def _report_invalid(self, error: ErrorDetails) -> None:
        place = error["loc"]
        if place[-1] == "[key]":  # what is wrong is the key, not its value
            place = place[:-1]
        origin = self._origin(place)
        model, inner = _model_at(place)
        if error["type"] == "extra_forbidden" and model is not None:
            self._report_unknown(place, model, origin)
        else:
            kind, default = _kind_and_default(model, place, inner)
            value = HIDDEN if _is_secret(model, place) else _shown(error["input"])
            said = error.get("ctx", {}).get("error")
            self._report(
                origin,
                f"{_format_key(place)} cannot be {value}.",
                str(said) if said is not None else _why(error, kind),
                (f"Write {_with_article(kind)}" if said is None else "Correct it") + f"{default}.",
            )
        self._take_out(place)

    def _report_unknown(self, place: KeyPath, model: type[BaseModel], origin: Origin) -> None:
        key = str(place[-1])
        name = _format_key(place)
        retired = _RETIRED.get(tuple(part for part in place if isinstance(part, str)))
        if retired is not None:
            why = "A key that is not read would only look as if it did something."
            self._report(origin, f"There is no key {name} any more.", why, f"Take it out. {retired}")
            return
        if len(place) == 1:
            is_section = isinstance(self._values.get(key), dict | list) or origin.layer is not Layer.FILE
            what = f"There is no section {name}." if is_section else f"There is no key {name} outside of the sections."
        else:
            what = f"There is no key {name}."
        elsewhere = sorted(_sections_with(key))
        if elsewhere:
            why = f"There is one of that name in {' and '.join(elsewhere)}."
        elif len(place) == 1 and key in _OTHER_NAMES:
            why = f"Did you mean {_OTHER_NAMES[key]}?"
        else:
            unread = "A key that is not read would only look as if it did something."
            why = did_you_mean(key.replace("-", "_"), model.model_fields, otherwise=unread)
        self._report(origin, what, why, f"Known here: {', '.join(model.model_fields)}.")

    def _report_broken(self, broken: BrokenRule) -> None:
        if any(_begins(place, wrong) for place in broken.about for wrong in self._wrong):
            return
        place = next((place for place in broken.about if place in self._origins), broken.about[0])
        self._report(self._origin(place), broken.what, broken.why, broken.remedy)

    def _origin(self, place: KeyPath) -> Origin:
        """The origin of the value itself, else of what holds it."""
        for length in range(len(place), 0, -1):
            if (origin := self._origins.get(place[:length])) is not None:
                return origin
        return Origin(Layer.FILE, f"{self._path}:1:1" if self._path is not None else "the configuration")

    def _take_out(self, place: KeyPath) -> None:
        self._wrong.append(place)
        # Out of a list nothing is taken alone, or the others would change their places.
        while len(place) > 1 and isinstance(place[-1], int) and place[0] != "tables":
            place = place[:-1]
        holder = _at(self._values, place[:-1])
        if isinstance(holder, dict):
            holder.pop(place[-1], None)
        elif isinstance(holder, list) and place[:-1] == ("tables",):
            holder[int(place[-1])] = {}
        else:
            self._take_out(place[:-1])


def _syntax_error(message: str, text: str) -> tuple[str, Position]:
    """tomllib says where in words."""
    if found := re.fullmatch(r"(.*) \(at line (\d+), column (\d+)\)", message, re.DOTALL):
        return found[1], Position(int(found[2]), int(found[3]))
    lines = text.split("\n")
    return message.removesuffix(" (at end of document)"), Position(len(lines), len(lines[-1]) + 1)


def _joined(document: dict[str, Any]) -> dict[str, Any]:
    """The document with the dotted keys of other people put together again: TOML makes tables of them."""
    joined: dict[str, Any] = {}
    for key, value in document.items():
        if key in VERBATIM and isinstance(value, dict):
            joined[key] = _flat(value)
        elif isinstance(value, dict):
            joined[key] = _joined(value)
        elif isinstance(value, list):
            joined[key] = [_joined(item) if isinstance(item, dict) else item for item in value]
        else:
            joined[key] = value
    return joined


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _joined_path(place: KeyPath) -> KeyPath:
    """The path of the same thing in a `_joined` document."""
    for depth, key in enumerate(place[:-1]):
        if key in VERBATIM:
            return (*place[: depth + 1], ".".join(str(part) for part in place[depth + 1 :]))
    return place


def _value_of(annotation: Any, text: str) -> Any:
    """`text` where the key takes text, else what it says in TOML, else `text`, which is then reported as wrong."""
    try:
        TypeAdapter(annotation).validate_python(text)
        return text
    except ValidationError:
        pass
    try:
        document = tomllib.loads(f"value = {text}")
    except (tomllib.TOMLDecodeError, RecursionError):
        return text
    return document["value"] if len(document) == 1 else text


def _at(values: Any, place: Iterable[str | int]) -> Any:
    for key in place:
        if isinstance(values, dict):
            values = values.get(key)
        elif isinstance(values, list) and isinstance(key, int) and key < len(values):
            values = values[key]
        else:
            return None
    return values


def _model_at(place: KeyPath) -> tuple[type[BaseModel] | None, KeyPath]:
    """The section that the place is in, and the rest of the place below it."""
    model: type[BaseModel] = Settings
    rest = place
    while len(rest) > 1:
        if isinstance(rest[0], int):
            rest = rest[1:]
            continue
        found = model.model_fields.get(str(rest[0]))
        inner = None if found is None else model_of(found.annotation)
        if inner is None:
            break
        model, rest = inner, rest[1:]
    return (model, rest) if rest and isinstance(rest[0], str) else (None, rest)


def _kind_and_default(model: type[BaseModel] | None, place: KeyPath, rest: KeyPath) -> tuple[str, str]:
    if model is None or rest[0] not in model.model_fields:
        return "table", ""
    key = key_of(model, "", str(rest[0]))
    kind = key.kind if len(rest) == 1 else key.kind.rpartition(": ")[2]
    if len(rest) > 1 or place[0] == "tables" or key.default is None:
        return kind, ""
    return kind, f", or leave it out: the default is {key.default}"


def _is_secret(model: type[BaseModel] | None, place: KeyPath) -> bool:
    if model is not None and str(place[-1]) in model.model_fields:
        return kind_of(model.model_fields[str(place[-1])]) == "URL"
    return names_secret(str(place[-1]))


def _why(error: ErrorDetails, kind: str) -> str:
    context = error.get("ctx", {})
    match error["type"]:
        case "greater_than":
            return f"It must be above {context['gt']:g}."
        case "greater_than_equal":
            least = write_duration(context["ge"]) if kind.startswith("duration") else f"{context['ge']:g}"
            return f"It must be {least} or more."
        case "string_too_short":
            return "It is empty."
        case "enum" | "literal_error":
            names = re.findall(r'"([^"]+)"', kind)
            return did_you_mean(str(error["input"]), names, otherwise="There is nothing of that name.")
        case _:
            return f"It takes {_with_article(kind)}."


def _with_article(kind: str) -> str:
    return kind if kind.startswith('"') else f"an {kind}" if kind.startswith("absolute") else f"a {kind}"


def _shown(value: object) -> str:
    try:
        text = orjson.dumps(value, default=str).decode()
    except TypeError:
        text = str(value)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"


def _format_key(place: KeyPath) -> str:
    """`tables[1].interval`: entries of a list are counted from 1."""
    text = ""
    for key in place:
        if isinstance(key, int):
            text += f"[{key + 1}]"
        else:
            text += f".{key}" if text else key
    return text


def _sections_with(key: str) -> Iterator[str]:
    for name, found in Settings.model_fields.items():
        model = model_of(found.annotation)
        if model is not None and key in model.model_fields and model is not TableOverride:
            yield f"[{name}]"


def _begins(place: KeyPath, prefix: KeyPath) -> bool:
    return place[: len(prefix)] == prefix


def _order(where: str) -> tuple[str, int, int]:
    """The key that sorts problems in the order of the file."""
    found = re.fullmatch(r"(.*):(\d+):(\d+)", where, re.DOTALL)
    return (found[1], int(found[2]), int(found[3])) if found else (where, 0, 0)
