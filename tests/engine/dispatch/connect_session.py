"""Run by test_spark_connect in a process of its own: a dispatcher on the Connect server at the given address.

Prints one JSON object of what was seen.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

REPOSITORY = str(Path(__file__).parents[3])
sys.path.insert(0, REPOSITORY)

from lakeward.base.errors import Cancelled, LakewardError  # noqa: E402
from lakeward.engine.dispatch.dispatcher import Done, Failure, Progress  # noqa: E402
from lakeward.engine.dispatch.spark import SparkDispatcher  # noqa: E402
from tests.engine.dispatch import tasks  # noqa: E402

remote, scratch = sys.argv[1:]
seen: dict[str, Any] = {}
dispatcher = SparkDispatcher("not used", remote=remote, memory=tasks.MEMORY)
dispatcher.probe()
progress: list[Progress] = []
outcomes = dispatcher.run(tasks.fail_on_odd, [0, 1, 2], description="test", on_progress=progress.append)
seen["outcomes"] = [
    outcome.result if isinstance(outcome, Done) else [type(outcome.error).__name__, outcome.error.what]
    for outcome in outcomes
]
assert isinstance(outcomes[1], Failure)
seen["progress"] = [progress[-1].finished, progress[-1].total]
try:
    dispatcher.run(tasks.break_on_odd, [0, 2, 3], description="test", on_progress=progress.append)
except LakewardError as error:
    seen["failed spec"] = getattr(error, "index", None)
file = Path(scratch) / "tick"


def cancel(state: Progress) -> None:
    if file.exists():
        raise Cancelled("Enough.")


started = time.monotonic()
try:
    dispatcher.run(tasks.tick, [str(file)], description="test", on_progress=cancel)
except Cancelled:
    seen["cancelled after"] = time.monotonic() - started
size = -1
while size != file.stat().st_size:
    size = file.stat().st_size
    time.sleep(1.0)
seen["ticks"] = size
seen["alive"] = dispatcher.is_alive()
dispatcher.stop()
print(json.dumps(seen))
