"""Ctrl-C ends a command that writes, also where its exception is lost on the way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakeward.base.errors import Cancelled
from lakeward.cli.error_report import AFTER_AN_INTERRUPT
from lakeward.cli.main import run
from lakeward.cli.serviced import interruptible
from lakeward.engine.task.entry import run_operation_at
from lakeward.format.timeline.instant import State
from tests.crash.compacting import check_readable
from tests.golden_tables import copy_golden
from tests.services.bench import pending_states


class Collected:
    """Something that is collected while a SIGINT comes."""


@pytest.fixture(autouse=True)
def in_foreground() -> Iterator[None]:
    """The command is started as a shell starts it in the foreground, wherever the tests run."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_that_python_loses_is_heard_at_the_next_fence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Keeps 1 of cli/serviced: SIGINT in a weak reference's callback raises nothing, and nothing is published."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    table = copy_golden("v9", tmp_path / "table")

    def interrupted(base_path: str, spec: object, attempt: int) -> object:
        result = run_operation_at(base_path, spec, attempt)  # type: ignore[arg-type]
        collected = Collected()
        reference = weakref.ref(collected, lambda gone: signal.raise_signal(signal.SIGINT))
        del collected
        assert reference() is None
        return result

    with monkeypatch.context() as patched:
        patched.setattr("lakeward.cli.services.compact_command.run_operation_at", interrupted)
        command = ["compact", str(table), "--engine", "local", "--writers", "stopped", "--timezone", "UTC"]
        assert run(command) == 130
    last = capfd.readouterr().err.splitlines()[-1]
    assert last.startswith("LW-CANCELLED: Interrupted. Compaction ")
    assert last.endswith(" was rolled back; its plan stays, and the next run carries it out.")
    assert pending_states(table) == {State.REQUESTED}
    check_readable(table)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


INTERRUPTED_AT_AN_IMPORT = """
import signal, sys

module = sys.argv.pop(1)

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            sys.meta_path.remove(self)
            signal.raise_signal(signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupting())
from lakeward.cli.main import main
main()
"""


@pytest.mark.parametrize(
    "module",
    ["typer", "lakeward.cli.verbs", "lakeward.config.file", "lakeward.services.compaction.run.compactor", "numpy"],
)
def test_an_interrupt_while_a_command_starts(tmp_path: Path, module: str) -> None:
    """Keeps 2 of cli/main, Keeps 1 of cli/verb_group: Ctrl-C in the first second is one line and 130."""
    table = copy_golden("v9", tmp_path / "table")
    words = [sys.executable, "-c", INTERRUPTED_AT_AN_IMPORT, module, "plan", str(table)]
    environment = os.environ | {"XDG_STATE_HOME": str(tmp_path / "state")}
    ended = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    assert ended.returncode == 130
    assert ended.stdout == ""
    assert ended.stderr == f"LW-CANCELLED: Interrupted. {AFTER_AN_INTERRUPT}\n"


def test_a_library_may_not_make_an_error_of_its_own_of_it() -> None:
    """A SystemError by which a library in C ends on the interrupt is an interrupt; without one it is an error."""
    with pytest.raises(Cancelled), interruptible():
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        raise SystemError("returned a result with an exception set")
    with pytest.raises(SystemError), interruptible():
        raise SystemError("a mistake")


def test_where_interrupts_are_ignored_they_stay_so() -> None:
    """Keeps 2 of cli/serviced: a command in a script's background is not ended by the Ctrl-C meant for another."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with interruptible() as guard:
        signal.raise_signal(signal.SIGINT)
        guard()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
