from __future__ import annotations

import io
import json
import logging
import re
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import structlog

from lakeward.base.printable import HIDDEN
from lakeward.config.settings import LogLevel
from lakeward.daemon.log import LIBRARIES, Redactor, configure_logging, log_context

CANARY = 'c4n4ry/with "quotes" & ünï%'
URL = "postgresql+psycopg://lakeward:c4n4ryInUrl@db.example:5432/lakeward"
ENCODED_URL = "postgresql://lakeward:p%40ss%2Fc4n4ry@db.example/lakeward"


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Logging is the whole process'; put it back."""
    root = logging.getLogger()
    loggers = [root, *(logging.getLogger(name) for name in LIBRARIES)]
    before = [(each, each.level, each.handlers[:], each.propagate) for each in loggers]
    hooks = sys.excepthook, threading.excepthook
    yield
    sys.excepthook, threading.excepthook = hooks
    logging.captureWarnings(False)
    structlog.reset_defaults()
    for logger, level, handlers, propagate in before:
        logger.setLevel(level)
        logger.handlers[:] = handlers
        logger.propagate = propagate


@dataclass(frozen=True)
class Holder:
    """An object whose repr shows everything."""

    inside: str


class Rude:
    def __repr__(self) -> str:
        raise RuntimeError(CANARY)


def events(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def plain(stream: io.StringIO) -> str:
    """What a person reads, without the colours."""
    return re.sub("\x1b\\[[0-9;]*m", "", stream.getvalue())


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def configured(stream: io.StringIO | None = None, level: LogLevel = LogLevel.INFO) -> io.StringIO:
    stream = io.StringIO() if stream is None else stream
    configure_logging(level, secrets=(CANARY, URL, ENCODED_URL), stream=stream)
    return stream


def log() -> Any:
    return structlog.stdlib.get_logger("lakeward.test")


def raise_with_canary() -> None:
    try:
        raise ValueError(f"inside: {CANARY}")
    except ValueError as error:
        error.add_note(f"note: {CANARY}")
        raise RuntimeError({"url": URL, "inner": [CANARY]}) from error


def in_exception() -> None:
    try:
        raise_with_canary()
    except RuntimeError:
        log().exception("failed")


def in_stdlib_exception() -> None:
    try:
        raise_with_canary()
    except RuntimeError:
        logging.getLogger("sqlalchemy.pool").exception("failed on %s", URL)


def in_thread() -> None:
    thread = threading.Thread(target=raise_with_canary)
    thread.start()
    thread.join()


def in_excepthook() -> None:
    try:
        raise_with_canary()
    except RuntimeError as error:
        sys.excepthook(type(error), error, error.__traceback__)


def in_context() -> None:
    with log_context(table=CANARY):
        log().info("x")


def in_group() -> None:
    try:
        raise ExceptionGroup("several", [ValueError(CANARY), OSError(5, CANARY, CANARY)])
    except ExceptionGroup:
        log().exception("failed")


PATHS: dict[str, Callable[[], None]] = {
    "the event": lambda: log().info(f"connecting with {CANARY}"),
    "positional arguments": lambda: log().info("connecting with %s", CANARY),
    "a field": lambda: log().info("x", field=CANARY),
    "a field's name": lambda: log().info("x", **{CANARY: 1}),
    "a URL": lambda: log().info("x", url=URL, text=f"cannot reach {ENCODED_URL}."),
    "an unknown URL": lambda: log().info("x", url="https://me:c4n4ry@host/x", other="amqp://:c4n4ry/@/v@host"),
    "a nested value": lambda: log().info("x", conf={"a": [{"b": (CANARY, {CANARY})}], CANARY: {"c": CANARY}}),
    "a key that names it": lambda: log().info(
        "x",
        password="c4n4ry",
        conf={"spark.ssl.keyPassword": "c4n4ry", "API-KEY": b"c4n4ry", "s3.secret.key": ["c4n4ry"]},
        access_token={"value": "c4n4ry"},
    ),
    "an assignment": lambda: log().info("host=db password=c4n4ry user=u; SECRET: 'c4n4ry too' &token=c4n4ry&x=1"),
    "an object": lambda: log().info("x", holder=Holder(CANARY), many=[Holder(CANARY)]),
    "bytes": lambda: log().info("x", data=CANARY.encode()),
    "a rude object": lambda: log().info("x", rude=Rude()),
    "a path": lambda: log().info("x", path=Path("/data") / 'c4n4ry/with "quotes" & ünï%'),
    "an exception": in_exception,
    "an exception as a field": lambda: log().info("x", error=ValueError(CANARY)),
    "a group of exceptions": in_group,
    "a stack": lambda: log().info("x", stack_info=True, field='c4n4ry/with "quotes" & ünï%'),
    "the context": in_context,
    "another's logger": lambda: logging.getLogger("apscheduler.executors").warning("job %r of %s", CANARY, URL),
    "another's extra": lambda: logging.getLogger("py4j").error("x", extra={"conf": {"k": CANARY}}),
    "another's exception": in_stdlib_exception,
    "a warning": lambda: warnings.warn(f"deprecated: {CANARY}", UserWarning, stacklevel=1),
    "arguments that do not fit": lambda: logging.getLogger("alembic").warning("%d rows", CANARY),
    "a thread's end": in_thread,
    "the process' end": in_excepthook,
}


@pytest.mark.filterwarnings("always::UserWarning")
@pytest.mark.parametrize("kind", [io.StringIO, Terminal])
@pytest.mark.parametrize("path", PATHS)
def test_no_secret_ever(path: str, kind: type[io.StringIO], capfd: pytest.CaptureFixture[str]):
    """A canary goes down every way into the log, and comes out of none, nor anywhere beside it."""
    stream = configured(kind())

    PATHS[path]()

    logging.captureWarnings(False)
    printed = stream.getvalue() + "".join(capfd.readouterr())
    assert "c4n4ry" not in printed
    assert stream.getvalue(), "the event itself is there"


def test_what_is_not_secret_is_not_hidden():
    """A URL without its password says where; numbers called tokens are no secrets."""
    stream = configured()

    log().info("leased", url=URL, token=17, write_token="0-1-2", tokens_total=3, text="3 tokens left", pause="x")

    (event,) = events(stream)
    assert event["url"] == f"postgresql+psycopg://lakeward:{HIDDEN}@db.example:5432/lakeward"
    assert (event["token"], event["write_token"], event["tokens_total"]) == (17, "0-1-2", 3)
    assert (event["text"], event["pause"]) == ("3 tokens left", "x")


def test_secrets_may_be_learned_later():
    """A reload may bring new ones."""
    stream = io.StringIO()
    redactor = configure_logging(stream=stream)
    redactor.learn(["freshly-learned"])

    log().info("x", field="freshly-learned", short="ab")

    assert events(stream)[0]["field"] == HIDDEN


def test_a_secret_too_short_to_be_one_hides_nothing():
    """Hiding every `a` would show more than it hides."""
    assert Redactor(["a", ""]).text("banana") == "banana"


def test_an_event_is_one_line_whatever_it_holds():
    """It may hold line breaks, control characters, half characters, much text, or itself."""
    stream = configured()
    endless: dict[str, Any] = {}
    endless["self"] = endless

    log().info("two\nlines\r\x1b[2J\x85\u2028", name="half\udce4", number=10**40, nan=float("nan"), endless=endless)

    assert len(stream.getvalue().split("\n")) == 2
    assert not set(stream.getvalue()) & set("\x1b\x85\u2028\r")
    (event,) = events(stream)
    assert event["event"] == "two\nlines\r\x1b[2J\x85\u2028"
    assert event["number"] == 10**40


def test_on_a_terminal_a_name_cannot_pretend_to_be_an_event():
    """A terminal gets no line breaks and no control characters outside of tracebacks."""
    stream = configured(Terminal())

    rude = "a\n2027-01-15 [info] all is well\x1b[1A"
    log().info(rude, table=rude, step=rude, many=[rude, {rude: rude}], **{rude: 1})

    assert plain(stream).count("\n") == 1
    assert "\x1b" not in plain(stream)


def test_a_line_for_people_says_first_when_and_where():
    """Time to the second, level, table, what happened, figures; the step or sentence last, whole, without its name.
    What is empty, and what the job's begin said, is left out."""
    stream = configured(Terminal())
    why = "hoodie.properties cannot be read. It is empty. Restore it from a copy, or from what the writers have. " * 3

    log().info("table added", table="/data/orders", base_path="/data/orders", instant=None)
    log().info("step", table="/data/orders", job="4b55", service="compaction", step="compaction 20270115: merging")
    log().warning("job ended", table="/data/orders", error=why.strip(), end="failed", instants=[], seconds=0.078)
    log().info("job ended", table="/data/orders", end="committed", instants=["20270115", "20270116"])
    log().info("step", table="/archive/orders", step="which orders?")
    logging.getLogger("alembic").warning("from elsewhere")

    lines = plain(stream).splitlines()
    assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ ", line) for line in lines)
    assert [line[21:] for line in lines] == [
        "info    orders table added base_path=/data/orders",
        "info    orders step: compaction 20270115: merging",
        f"warning orders job ended end=failed seconds=0.078: {why.strip()}",
        "info    orders job ended end=committed instants=20270115,20270116",
        "info    /archive/orders step: which orders?",
        "warning from elsewhere logger=alembic",
    ]


def test_events_carry_what_they_are_about():
    """Table, instant and job of the piece of work, also where a library speaks; not beyond its end, nor its thread."""
    stream = configured()

    with log_context(table="orders", job="j1"):
        with log_context(instant="20270115075640123", job=None):
            log().info("merged", operations=12)
        logging.getLogger("alembic").warning("inside")
        thread = threading.Thread(target=lambda: log().info("elsewhere"))
        thread.start()
        thread.join()
    log().info("after")

    merged, inside, elsewhere, after = events(stream)
    assert list(merged)[:6] == ["time", "level", "event", "table", "instant", "job"]
    assert (merged["table"], merged["instant"], merged["job"], merged["operations"]) == (
        "orders",
        "20270115075640123",
        "j1",
        12,
    )
    assert (inside["table"], inside["logger"]) == ("orders", "alembic")
    assert "table" not in elsewhere
    assert "table" not in after


@pytest.mark.parametrize("name", LIBRARIES)
def test_libraries_speak_through_the_same_door_and_quietly(name: str):
    """What they have to say of themselves is not asked for, even where we listen to our own details."""
    stream = configured(level=LogLevel.DEBUG)
    other_handler = logging.StreamHandler(io.StringIO())
    logging.getLogger(name).addHandler(other_handler)
    stream = configured(level=LogLevel.DEBUG)

    logging.getLogger(name).debug("chatter")
    logging.getLogger(name).warning("trouble")
    log().debug("detail")

    assert [event["event"] for event in events(stream)] == ["trouble", "detail"]
    assert other_handler.stream.getvalue() == ""


def test_the_level_is_the_least_that_is_written():
    """The level holds for us and for the libraries."""
    stream = configured(level=LogLevel.ERROR)

    log().warning("w")
    logging.getLogger("uvicorn").warning("w")
    log().error("e")

    assert [event["event"] for event in events(stream)] == ["e"]


def test_it_can_be_configured_again():
    """Nothing is written twice, and the old stream hears nothing more."""
    first, second = configured(), configured()

    log().info("x")

    assert (first.getvalue(), len(events(second))) == ("", 1)


def test_automatic_is_json_where_no_terminal_is():
    """A file or a pipe gets JSON, a terminal is for people."""
    pipe, terminal = configured(), Terminal()
    log().info("piped")
    configure_logging(stream=terminal)
    log().info("seen")

    assert events(pipe)[0]["event"] == "piped"
    assert not terminal.getvalue().startswith("{")
    assert "seen" in terminal.getvalue()


def test_what_cannot_be_written_is_said_to_be_lost():
    """Logging's own way would print the event as it is."""

    class Full(io.StringIO):
        def write(self, text: str) -> int:
            if "lost" not in text:
                raise OSError(28, CANARY)
            return super().write(text)

    full = Full()
    configure_logging(secrets=[CANARY], stream=full)

    log().info(CANARY)

    assert full.getvalue() == "an event of lakeward.test was lost: OSError\n"


def test_an_exception_that_was_not_caught_is_an_event():
    """A real process writes one line of JSON without a secret, and Python prints nothing itself."""
    code = (
        "from lakeward.daemon.log import configure_logging\n"
        "configure_logging(secrets=['c4n' + '4ry'])\n"
        "raise RuntimeError('with c4n' + '4ry')\n"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)

    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert json.loads(line)["event"] == "uncaught exception"
    assert f"with {HIDDEN}" in json.loads(line)["exception"]
