"""A real browser for tests of pages: Chromium without a window, with a profile of its own each time."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

_FLAGS = (
    "--headless",
    "--no-sandbox",  # tests may run as root, and open only pages of Lakeward
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Whatever is not our own address is refused at once, and the console says so.
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
)

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_browser() -> str:
    """The path of the browser. Without one the test is skipped with the reason, but red in CI. `LAKEWARD_BROWSER` names
    another."""
    given = os.environ.get("LAKEWARD_BROWSER")
    found = next((path for name in ([given] if given else NAMES) if (path := shutil.which(name))), None)
    if found is None:
        complain = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        complain("no Chromium is installed (package chromium; or name a browser in LAKEWARD_BROWSER)")
    return found


@contextmanager
def opened(url: str) -> Iterator[None]:
    """A page that stays open meanwhile, with its script and what that fetches."""
    profile = Path(tempfile.mkdtemp(prefix="lakeward-browser-"))
    flags = [*_FLAGS, f"--user-data-dir={profile}", "--remote-debugging-port=0", url]
    browser = subprocess.Popen([find_browser(), *flags], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        browser.terminate()
        browser.wait(timeout=60)
        shutil.rmtree(profile, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Visit:
    dom: str
    """The document as the browser made it of the answer, serialised again."""
    console: tuple[str, ...]
    """Lines of the page's console: refused styles, blocked requests, errors of scripts."""


def visit(url: str, *, width: int = 1440, height: int = 1000) -> Visit:
    """Open a page, and take its DOM when it has loaded."""
    profile = Path(tempfile.mkdtemp(prefix="lakeward-browser-"))
    try:
        done = subprocess.run(
            [
                find_browser(),
                *_FLAGS,
                "--enable-logging=stderr",
                f"--user-data-dir={profile}",
                f"--window-size={width},{height}",
                "--dump-dom",
                url,
            ],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=120,
            check=True,
        )
    finally:
        shutil.rmtree(profile, ignore_errors=True)
    console = tuple(line for line in done.stderr.splitlines() if "CONSOLE" in line)
    return Visit(done.stdout, console)
