"""Take the pictures of README and docs/start/first-table.md: pages before and after the first compaction of a table.

    python -m deploy.pictures        needs Chromium, no Java and no network

The table is a copy of a small one that Hudi wrote. The daemon watches it without a statement about its writers first,
then with one, as that page describes.

Touches: a temporary folder, a port on the loopback interface, and the PNGs in docs/start/pictures.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

from tests.browser import find_browser
from tests.golden_tables import copy_golden

PICTURES = Path(__file__).parents[1] / "docs" / "start" / "pictures"
PORT = 8497
LAKEWARD = [sys.executable, "-m", "lakeward.cli.main"]

SHADOW = f"""\
[service]
listen = "127.0.0.1:{PORT}"
engine = "local"
state_folder = "{{folder}}/state"

[discovery]
roots = ["{{folder}}/lake"]

[defaults]
interval = "3s"
"""
SERVICED = (
    SHADOW
    + """
[defaults.planner]
"hoodie.compact.inline.max.delta.commits" = 1

[locks]
writers = "stopped"
"""
)


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="lakeward-pictures-") as name:
        folder = Path(name)
        (folder / "lake").mkdir()
        copy_golden("v9", folder / "lake" / "trips")
        configuration = folder / "lakeward.toml"
        configuration.write_text(SHADOW.format(folder=folder))
        daemon = subprocess.Popen([*LAKEWARD, "run", "--config", str(configuration)])
        try:
            wait_until(lambda: "in shadow" in page("/tables/trips") and "FULL" in page("/tables/trips"))
            picture("shadow", "/tables/trips", height=900)
            picture("fleet", "/", height=470)
            configuration.write_text(SERVICED.format(folder=folder))
            daemon.send_signal(signal.SIGHUP)
            wait_until(lambda: "committed" in page("/tables/trips") and "found nothing to do" in page("/tables/trips"))
            picture("serviced", "/tables/trips", height=900)
            picture("tables", "/", height=420)
        finally:
            daemon.terminate()
            daemon.wait(timeout=90)


def picture(name: str, path: str, *, height: int) -> None:
    target = PICTURES / f"{name}.png"
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size=1100,{height}"]
    address = f"http://127.0.0.1:{PORT}{path}"
    subprocess.run(
        [find_browser(), *flags, f"--screenshot={target}", address], check=True, capture_output=True, timeout=60
    )
    assert target.stat().st_size <= 150 * 1024, f"{target} is too large for a page"


def page(path: str) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{PORT}{path}", timeout=5) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < end, "the daemon did not get there in two minutes"
        time.sleep(0.2)


if __name__ == "__main__":
    os.environ.setdefault("CI", "true")
    main()
