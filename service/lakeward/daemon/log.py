"""The daemon's log: one event, one line, for a program to read or for a person; and never a secret in it.

Everything goes one way, Lakeward's events and those of libraries through `logging`, so that nothing passes by the
redaction:

    structlog ----.
                  +--> context (table, instant, job) --> time, level --> exception as text --> redact --> JSON
    logging ------'                                                                                   `-> console
    uncaught exceptions, warnings --> logging

`log_context(table=..., job=...)` says what the events of a piece of work are about.

Touches: standard error; the process-wide settings of structlog and logging; `sys.excepthook`, `threading.excepthook`.
Keeps:   1. a known secret, the password of a URL and the value under a key that names a secret reach no line, in
            whatever they are wrapped: nested values, objects, exceptions with their causes and notes;
         2. an event is one line, whatever it holds; on a terminal only a traceback has more;
         3. what cannot be written is said to have been lost, without its content.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, TextIO

import structlog
from structlog.stdlib import BoundLogger
from structlog.types import EventDict, WrappedLogger

from lakeward.base.printable import HIDDEN, encodings, names_secret, printable, secrets_in
from lakeward.config.settings import LogLevel
from lakeward.protocol.job_report import WorkProblem
from lakeward.protocol.problem import is_foreseen, problem_of

LIBRARIES: Mapping[str, int] = {
    "alembic": logging.WARNING,
    "apscheduler": logging.WARNING,
    "py4j": logging.WARNING,
    "pyspark": logging.WARNING,
    "sqlalchemy": logging.WARNING,
    "uvicorn": logging.WARNING,
    "asyncio": logging.WARNING,
}
"""The least that is heard of each; a higher level of the service's own raises it, a lower one does not."""

_DEPTH_MAX = 8

# A name must not be able to move the cursor of a terminal.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_CONTROL_AND_BREAKS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_LATE_CONTROL = re.compile(r"[\x7f-\x9f\u2028\u2029]")


class Redactor:
    """Takes secrets out of values. Knows some by their value, others by where they stand."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._known: tuple[str, ...] = ()
        self.learn(secrets)

    def learn(self, secrets: Iterable[str]) -> None:
        """These values, too, in every form that they may meet us in; of a URL, its password."""
        found = (secrets_in(secret) if "://" in secret else {secret} for secret in secrets)
        self._known = encodings({*self._known, *(value for values in found for value in values)})

    def text(self, text: str) -> str:
        return printable(text, self._known)

    def value(self, value: Any, *, key: str = "", depth: int = 0) -> Any:
        """The same without secrets, made of what JSON knows."""
        if _names_secret(key, value):
            return HIDDEN
        if value is None or isinstance(value, (bool, int, float)):
            return value
        if isinstance(value, str):
            return self.text(str(value))
        if depth >= _DEPTH_MAX:
            return "…"
        if isinstance(value, Mapping):
            return {
                self.text(str(name)): self.value(inner, key=str(name), depth=depth + 1) for name, inner in value.items()
            }
        if isinstance(value, AbstractSet):
            return sorted((self.value(inner, depth=depth + 1) for inner in value), key=str)
        if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray, memoryview)):
            return [self.value(inner, depth=depth + 1) for inner in value]
        if isinstance(value, (bytes, bytearray)):
            return self.text(value.decode(errors="backslashreplace"))
        return self.text(_encode(value))

    def __call__(self, logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        return {self.text(str(key)): self.value(value, key=str(key)) for key, value in event.items()}


def _names_secret(key: str, value: Any) -> bool:
    # Numbers are counted or compared, such as the fencing token of a lease; no login takes one.
    if value is None or isinstance(value, (bool, int, float)):
        return False
    return names_secret(key)


def _encode(value: Any) -> str:
    try:
        return str(value) if isinstance(value, BaseException) else repr(value)
    except Exception as error:  # whatever a stranger's __repr__ does, the event is worth more
        return f"<{type(value).__name__}, whose repr fails with {type(error).__name__}>"


@contextmanager
def log_context(**fields: Any) -> Iterator[None]:
    """Events inside, on this thread, carry the fields: table, instant, job."""
    with structlog.contextvars.bound_contextvars(
        **{name: value for name, value in fields.items() if value is not None}
    ):
        yield


def configure_logging(
    level: LogLevel = LogLevel.INFO,
    *,
    secrets: Iterable[str] = (),
    stream: TextIO | None = None,
) -> Redactor:
    """From here on every event of this process goes to `stream` (standard error). May be called again.

    Returns what the lines pass through, which takes secrets that come later.
    """
    stream = sys.stderr if stream is None else stream
    redactor = Redactor(secrets)
    human = stream.isatty()
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        structlog.processors.StackInfoRenderer(),
    ]
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            redactor,
            _Console(colours=stream.isatty()) if human else _json_line,
        ],
    )
    handler = _QuietHandler(stream)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers.clear()  # one that a library has put there would print what it is given
    root.addHandler(handler)
    own = getattr(logging, level.value.upper())
    root.setLevel(own)
    for name, least in LIBRARIES.items():
        library = logging.getLogger(name)
        library.setLevel(max(own, least))
        library.handlers.clear()
        library.propagate = True
    logging.captureWarnings(True)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.stdlib.PositionalArgumentsFormatter(),
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    sys.excepthook = _log_uncaught
    threading.excepthook = _log_uncaught_in_thread
    return redactor


class _QuietHandler(logging.StreamHandler[TextIO]):
    """Handler that says only that it cannot write an event; logging's own way would print it as it is."""

    def handleError(self, record: logging.LogRecord) -> None:
        kind = sys.exc_info()[0]
        with suppress(OSError, ValueError):  # then there is no stream left to write to
            self.stream.write(f"an event of {record.name} was lost: {kind.__name__ if kind else 'error'}\n")


_FIRST = ("time", "level", "event", "table", "instant", "job")


def _json_line(logger: WrappedLogger, method: str, event: EventDict) -> str:
    ordered = {key: event[key] for key in _FIRST if key in event}
    ordered.update(event)
    line = json.dumps(ordered, ensure_ascii=False, default=_encode)
    # JSON leaves these as they are, and a terminal that shows the file may obey them.
    line = _LATE_CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", line)
    # A name from a file system may hold half of a character, which no stream takes.
    return line.encode(errors="backslashreplace").decode()


_SENTENCES = ("step", "text", "error", "problem", "problems", "why")
"""Fields that hold sentences: they end a line, without their names."""
_LEVEL_COLOURS = {"warning": "33", "error": "31", "critical": "31"}


class _Console:
    """One line for each event, for people: time, level, table, what happened, its figures, and what it says last."""

    def __init__(self, *, colours: bool) -> None:
        self._colours = colours
        self._tables: dict[str, set[str]] = {}
        """Last folder to the tables of that name."""

    def __call__(self, logger: WrappedLogger, method: str, event: EventDict) -> str:
        # Exceptions are text by now, and redacted.
        tracebacks = [_escaped(str(event.pop(key)), _CONTROL) for key in ("stack", "exception") if key in event]
        fields = {_escaped(key): _shown(value) for key, value in event.items()}
        level, logger_name = fields.pop("level", ""), fields.pop("logger", "")
        head = [
            self._coloured("2", _to_the_second(fields.pop("time", ""))),
            self._coloured(_LEVEL_COLOURS.get(level, "32"), f"{level:<7}"),
        ]
        if table := fields.pop("table", ""):
            head.append(self._coloured("36", self._named(table)))
        head.append(self._coloured("1", fields.pop("event", "")))
        if "step" in fields:  # the line of the job's begin has these
            fields.pop("job", None)
            fields.pop("service", None)
        said = " ".join(filter(None, (fields.pop(key, "") for key in _SENTENCES)))
        if logger_name and not logger_name.startswith("lakeward"):
            fields["logger"] = logger_name
        figures = [f"{key}={value}" for key, value in sorted(fields.items()) if value]
        line = " ".join([*head, *figures]) + (f": {said}" if said else "")
        return "\n".join([line, *tracebacks]).encode(errors="backslashreplace").decode()

    def _named(self, table: str) -> str:
        """The last folder of a base path, and all of it where another table has that, too."""
        last = table.rstrip("/").rpartition("/")[2]
        alike = self._tables.setdefault(last, set())
        alike.add(table)
        return last if len(alike) == 1 and last else table

    def _coloured(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._colours else text


def _to_the_second(time: str) -> str:
    """`2026-11-28T20:44:05.666073Z` without its fraction."""
    day, _, moment = time.partition("T")
    return f"{day} {moment.partition('.')[0].rstrip('Z')}Z"


def _shown(value: Any) -> str:
    """A value as people write it, in one line: a name with a line break could look like another event."""
    if value is None:
        return ""
    if isinstance(value, (list, tuple)):
        return ",".join(_shown(each) for each in value)
    return _escaped(str(value))


def _escaped(text: str, control: re.Pattern[str] = _CONTROL_AND_BREAKS) -> str:
    return control.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def _log_uncaught(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        return
    logging.getLogger("lakeward").critical("uncaught exception", exc_info=(kind, error, traceback))


def _log_uncaught_in_thread(args: threading.ExceptHookArgs) -> None:
    if args.exc_value is None or args.exc_type is SystemExit:
        return
    logging.getLogger("lakeward").critical(
        "uncaught exception",
        exc_info=(args.exc_type, args.exc_value, args.exc_traceback),
        extra={"thread": args.thread.name if args.thread else ""},
    )


class FailureLog:
    """Says in the log what failed: a foreseen error in a line, any other with its traceback.

    The scheduler records the first failure of a row of scans, and each refusal once. A reason that differs from the
    last is said here, and one that stays the same is not said with every scan.
    """

    def __init__(self, log: BoundLogger) -> None:
        self._log = log
        self._unsaid: dict[str, str] = {}
        """Table to why its scan failed just now, which the log has yet to say."""
        self._said: dict[str, str] = {}
        """Table to the last such text that the log has."""

    def problem(self, error: Exception, **about: str) -> WorkProblem:
        """Log what went wrong, and say what it means."""
        if not is_foreseen(error):
            self._log.error("a bug in Lakeward", exc_info=error, **about)
        else:
            self._log.warning("work failed", error=str(error), **about)
        return problem_of(error)

    def of_scan(self, table: str, error: Exception) -> WorkProblem:
        """The same of a poll or a plan, where a foreseen error is said later, if at all."""
        if not is_foreseen(error):
            return self.problem(error, table=table)
        problem = problem_of(error)
        self._unsaid[table] = problem.text
        return problem

    def recorded(self, table: str, text: str) -> None:
        """The log has a record of the scheduler with that text."""
        if self._unsaid.get(table) == text:
            del self._unsaid[table]
            self._said[table] = text

    def say_of_scans(self) -> None:
        """What failed since the last call, where it is new."""
        for table, text in self._unsaid.items():
            if self._said.get(table) != text:
                self._log.warning("work failed", table=table, error=text)
                self._said[table] = text
        self._unsaid.clear()

    def forget(self, table: str) -> None:
        self._said.pop(table, None)
