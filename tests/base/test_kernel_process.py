"""The process that compiles kernels for another one: what it reports, how it ends, and that it can be ended."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from lakeward.base import kernel_folder, kernel_process
from lakeward.base.errors import LakewardError
from lakeward.base.kernel_process import KernelProcess, build_missing, report_on_stderr, reports_taken

ONE = """
from lakeward.constants import FACTOR
from lakeward.base.kernel import kernel, types


@kernel(types.int64(types.int64))
def one(value):
    return FACTOR * value


@kernel(types.int64(types.int64))
def one_again(value):
    return one(value)
"""
TWO = """
from lakeward.base.kernel import kernel, types
from lakeward.one import one_again


@kernel(types.int64(types.int64))
def two(value):
    return one_again(value)
"""

FOREVER = "import time; time.sleep(600)"


def python(program: str) -> KernelProcess:
    return KernelProcess([sys.executable, "-c", program])


def becomes_true(claim: Callable[[], bool]) -> bool:
    end = time.monotonic() + 20
    while not claim() and time.monotonic() < end:
        time.sleep(0.05)
    return claim()


def all_end(processes: list[psutil.Process]) -> bool:
    """Processes without a parent stay as zombies for a while."""
    return becomes_true(lambda: all(not it.is_running() or it.status() == psutil.STATUS_ZOMBIE for it in processes))


@pytest.fixture(autouse=True)
def nothing_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_process, "_has_failed", False)
    for name in [name for name in os.environ if name.startswith("NUMBA_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def small_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What makes kernels, copied, with three of them."""
    package = tmp_path / "lakeward"
    without = shutil.ignore_patterns("__pycache__", "byte_order.py")  # which has kernels of its own
    shutil.copytree(kernel_folder.PACKAGE / "base", package / "base", ignore=without)
    (package / "__init__.py").touch()
    for name, text in {"constants": "FACTOR = 2", "one": ONE, "two": TWO}.items():
        (package / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)  # where processes that are started look first
    return package


@pytest.mark.slow
def test_a_build_counts_and_leaves_kernels(small_package: Path) -> None:
    """All are counted from none on, found afterwards by any process, and compiled once; again where what they are made
    of changed.

    Keeps 3 of base/kernel_build.
    """
    counts: list[tuple[int, int]] = []
    KernelProcess().run(lambda done, total: counts.append((done, total)))
    assert counts[0] == (0, 3)
    assert counts[-1] == (3, 3)
    assert len(list(small_package.rglob("compiled/*.nbi"))) == 3
    before = counts.copy()
    KernelProcess().run(lambda done, total: counts.append((done, total)))
    assert (3, 3) not in counts[len(before) :], "the second build had something to do"

    # A constant of another file changes what both modules compute; Numba looks at neither.
    (small_package / "constants.py").write_text("FACTOR = 3  # of another size: Python looks at seconds and size")
    KernelProcess().run(lambda done, total: None)
    ask = [sys.executable, "-c", "from lakeward.two import two; print(two(7), sum(two.stats.cache_misses.values()))"]
    environment = os.environ | {"PYTHONPATH": str(small_package.parent)}
    assert subprocess.run(ask, env=environment, capture_output=True, check=True).stdout == b"21 0\n"

    # Where the process that listens was killed, it ends, and says nothing on what may be a terminal.
    (small_package / "compiled" / "made-for").unlink()
    build = subprocess.Popen(
        [sys.executable, "-m", "lakeward.base.kernel_build", kernel_process.COUNTS],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert build.stdout is not None and build.stderr is not None
    build.stdout.close()
    assert (build.stderr.read(), build.wait()) == (b"", 1)


@pytest.mark.slow
def test_what_compiles_ends_with_what_started_it(small_package: Path) -> None:
    """Keeps 4 of base/kernel_build: also where its parent was killed, which says nothing."""
    (small_package / "two.py").write_text(f"{FOREVER}\n{TWO}")
    build = subprocess.Popen(
        [sys.executable, "-m", "lakeward.base.kernel_build"], env=os.environ | {"PYTHONPATH": str(small_package.parent)}
    )
    process = psutil.Process(build.pid)
    try:
        assert becomes_true(lambda: len(list(small_package.rglob("compiled/one*.nbi"))) == 2)
        workers = process.children(recursive=True)
        assert workers
    finally:
        build.send_signal(signal.SIGKILL)
        build.wait()
    assert all_end(workers)


@pytest.mark.parametrize("ends", ["stop", "error"])
def test_all_that_was_started_ends_at_once(ends: str) -> None:
    """Keeps 1 of base/kernel_process: with what it started in turn."""
    child = f"import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', '{FOREVER}']); "
    build = python(child + "print('{\"done\": ' + str(child.pid) + ', \"total\": 9}', flush=True); child.wait()")
    started: list[psutil.Process] = []

    def report(done: int, total: int) -> None:
        started.append(psutil.Process(done))
        if ends == "error":
            raise KeyboardInterrupt
        build.stop()

    if ends == "error":
        with pytest.raises(KeyboardInterrupt):
            build.run(report)
    else:
        build.run(report)
    assert started
    assert all_end(started)


def test_a_build_that_was_stopped_before_it_began_starts_nothing(tmp_path: Path) -> None:
    build = python(f"open({str(tmp_path / 'ran')!r}, 'w')")
    build.stop()
    build.run(lambda done, total: None)
    assert not (tmp_path / "ran").exists()


def test_a_failure_is_shown_once(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """What the process says of it is passed on; else its exit code. The same process does not try again."""
    refused = python("""print('{"what": "Nowhere.", "why": "Full.", "remedy": "Free."}'); raise SystemExit(1)""")
    with pytest.raises(LakewardError, match="Nowhere") as raised:
        refused.run(lambda done, total: None)
    assert (raised.value.why, raised.value.remedy) == ("Full.", "Free.")
    monkeypatch.setattr(kernel_process, "_has_failed", False)
    monkeypatch.setattr(kernel_process, "find_compiled", lambda: None)
    begun: list[KernelProcess] = []

    def begin() -> KernelProcess:
        begun.append(python("raise SystemExit(9)"))
        return begun[-1]

    monkeypatch.setattr(kernel_process, "KernelProcess", begin)
    build_missing()
    build_missing()
    assert len(begun) == 1
    assert capfd.readouterr().err == (
        "The kernels could not be compiled. The process that does it ended with 9. "
        "`lakeward warm` compiles them, and says what is wrong.\n"
    )


@pytest.mark.parametrize("variable", ["NUMBA_CPU_NAME=generic", "NUMBA_DISABLE_JIT=1", "found"])
def test_nothing_is_started_where_nothing_is_missing(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps 2 of base/kernel_process: kernels that are found, or that Numba's own variables decide about."""
    monkeypatch.setattr(kernel_process, "find_compiled", lambda: None)
    assert kernel_process.is_needed()
    if variable == "found":
        monkeypatch.setattr(kernel_process, "find_compiled", lambda: Path("/"))
    else:
        monkeypatch.setenv(*variable.split("="))
    monkeypatch.setattr(KernelProcess, "run", lambda self, report: pytest.fail("started"))
    build_missing()


def test_counts_go_where_they_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """To a view while it is open; to standard error else, on a terminal as one line that goes at the end."""
    monkeypatch.setattr(kernel_process, "is_needed", lambda: True)
    monkeypatch.setattr(KernelProcess, "run", lambda self, report: report(12, 107))
    taken: list[tuple[int, int]] = []
    with reports_taken(lambda done, total: taken.append((done, total))):
        build_missing()
    assert taken == [(12, 107)]
    lines = io.StringIO()
    monkeypatch.setattr(sys, "stderr", lines)
    report = report_on_stderr()
    for done in (0, 12, 107):
        report(done, 107)
    assert lines.getvalue().splitlines() == [
        "compiling kernels, once on this machine: 0 of 107",
        "compiling kernels, once on this machine: 107 of 107",
    ]
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", terminal)
    report = report_on_stderr()
    report(12, 107)
    report(107, 107)
    assert terminal.getvalue() == "\r\x1b[2Kcompiling kernels, once on this machine: 12 of 107\r\x1b[2K"
