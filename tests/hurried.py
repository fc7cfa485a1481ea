"""`lakeward` with other constants than its own, in a process of its own:

    python -m tests.hurried '{"lakeward.daemon.app.LEASE_SECONDS": 10}' run --config lakeward.toml

A name of a class takes a table, of what its values are unless they are given.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from pathlib import Path

from lakeward.cli.main import main

REPOSITORY = Path(__file__).parents[1]

HURRIED: Mapping[str, object] = {
    "lakeward.config.settings.LOCK_WAIT_SECONDS": 20.0,
    "lakeward.daemon.served_table.Schedule": {
        "retry_first": 1.0,
        "retry_max": 5.0,
        "failures_max": 50,
        "verification_interval": 20.0,
    },
    "lakeward.services.clean.job.AFTER_COMMITS": 1,
    "lakeward.services.archive.job.AFTER_COMMITS": 1,
}
"""What a daemon needs that is to do in seconds what others do in a day."""


def hurry(constants: Mapping[str, object]) -> None:
    """Give the constants these values, in this process."""
    for name, value in constants.items():
        module, _, attribute = name.rpartition(".")
        of = import_module(module)
        before = getattr(of, attribute)
        setattr(of, attribute, partial(before, **value) if isinstance(value, dict) else value)


def hurried_command(constants: Mapping[str, object], *arguments: str) -> list[str]:
    """The command line; it runs in `REPOSITORY`."""
    return [sys.executable, "-m", "tests.hurried", json.dumps(constants), *arguments]


if __name__ == "__main__":
    hurry(json.loads(sys.argv.pop(1)))
    main()
