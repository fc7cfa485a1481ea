"""Write docs/reference/json.md: the fields of the documents that verbs print with --json.

    python -m deploy.json_page

They are read off what the verbs print of the golden tables of the tests, one document after another.

Touches: that file, and copies of golden tables in a temporary folder.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lakeward.base.clock import SystemClock
from lakeward.cli.main import run
from lakeward.config.job_card import detail_of
from lakeward.protocol.job_report import JobCost, JobFigures, JobReport, JobResult, ReadLoad
from lakeward.services.compaction.simulation.trace import write_trace
from lakeward.state.migration import migrate
from lakeward.state.records import CostRecord, JobRecord
from lakeward.state.store import open_store
from tests.golden_tables import copy_golden
from tests.services.compaction.simulation.sized_history import HISTORY

DOCUMENT = Path(__file__).parents[1] / "docs" / "reference" / "json.md"

HEAD = """\
# JSON documents

<!-- made by `make json-page` from what the verbs print; do not edit -->

What verbs print with `--json`, as fields and types. Names of fields are stable; a release may add some. `?` marks a
field that is null, or not there, in some documents. A list whose elements are not shown was empty in the tables that
this page is made from, and `by name` is an object whose keys are data: paths, instants or settings. Errors go to
stderr as `{"error": {"code", "what", "why", "remedy", "notes"}}` ([exit codes](exit-codes.md)).
"""

STOPPED = ("--writers", "stopped")
DRY = ("--dry-run",)
KEY = "k1"

COMMANDS: Sequence[tuple[str, Sequence[str]]] = (
    ("inspect", ("{table}",)),
    ("plan", ("{table}",)),
    ("explain", ("{table}",)),
    ("layout", ("{table}", "--by", "ts")),
    ("simulate", ("--trace", "{trace}", "--core-hour-price", "1")),
    ("record", ("{table}", "--to", "{record}", "--last", "36500d")),
    ("verify", ("{table}",)),
    ("doctor", ("{table}",)),
    ("erase-status", ("{table}", "--keys", "{keys}", "--expedite")),
    ("erase-status", ("{table}", "--keys", "{gone}", "--receipt", "{receipt}", "--sign-with", "{signing}")),
    ("erase-expedite", ("{table}", "--keys", "{keys}", *DRY)),
    ("erase-verify", ("{receipt}", "--sign-with", "{signing}", "--keys", "{gone}")),
    ("service", ("{table}", *DRY)),
    ("compact", ("{table}", *DRY)),
    ("compact", ("{table}", "--type", "full", *STOPPED)),
    ("index list", ("{table}",)),
    ("index build", ("{table}", "--type", "record")),
    ("index list", ("{table}",)),
    ("index lookup", ("{table}", KEY, "--type", "simple")),
    ("index changes", ("{table}",)),
    ("index tails", ("{table}", "--auto")),
    ("index strip-tails", ("{table}", *DRY)),
    ("index compare", ("{table}", "--type", "simple", "--type", "record")),
    ("index verify", ("{table}", "--type", "record")),
    ("index drop", ("{table}", "--type", "record")),
    ("savepoint create", ("{table}", *STOPPED)),
    ("savepoint list", ("{table}",)),
    ("rollback", ("{table}", *DRY)),
    ("clean", ("{table}", *DRY)),
    ("clean", ("{table}", "--policy", "versions", "--retain", "1", "--reader-window", "0", *STOPPED)),
    ("archive", ("{table}", *DRY)),
    ("archive", ("{table}", *STOPPED)),
    ("quarantine list", ("{table}",)),
    ("quarantine orphans", ("{table}", "--dry-run")),
    ("cluster", ("{table}", *DRY)),
    ("ttl", ("{table}", "--keep", "1d", *DRY)),
    ("metadata compact", ("{table}", *DRY)),
    ("metadata clean", ("{table}", *DRY)),
    ("metadata drop", ("{table}", "record_index", *STOPPED)),
    ("index build --type metadata", ("{table}", "--kind", "record", *STOPPED)),
    ("metadata disable", ("{table}", *DRY)),
    ("table upgrade", ("{table}", "--to", "10", *DRY)),
    ("service", ("{table}", *STOPPED)),
    ("cluster", ("{table}", "--hudi-conf", "hoodie.clustering.plan.strategy.small.file.limit=314572800", *STOPPED)),
    ("cluster --undo", ("{table}", *STOPPED)),
    ("init", ("{first}", "--tables", "{table}")),
    ("config check", ("{config}",)),
    ("state status", ("--url", "{store}")),
    ("pause", ("orders", "--reason", "maintenance", "--config", "{config}", "--url", "{store}")),
    ("events", ("--url", "{store}")),
    ("job", ("j1", "--url", "{store}")),
    ("costs", ("--url", "{store}")),
    ("learn-reads", ("{log}", "--url", "{store}")),
    ("version", ()),
)

MAPS = frozenset(
    {"numbers", "deleted", "replaced", "properties", "reasons", "phases", "merges", "forms", "looked_at", "counted"}
)
"""Fields whose keys are data."""


def page() -> str:
    """The page as it is now."""
    shapes: dict[str, Any] = {}
    for words, document in _documents():
        shapes[words] = _merged(shapes[words], _shape(document)) if words in shapes else _shape(document)
    sections = [f"## {words}\n\n```\n" + "\n".join(_lines(shape)) + "\n```\n" for words, shape in shapes.items()]
    return "\n".join([HEAD, *sections])


def _documents() -> Iterator[tuple[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        table, config = copy_golden("v9_metadata", Path(folder) / "orders"), Path(folder) / "lakeward.toml"
        config.write_text(f'[[tables]]\nname = "orders"\npath = "{table}"\n')
        names = {"table": str(table), "config": str(config), "store": f"sqlite:///{folder}/lakeward.db"}
        names["log"] = f"{folder}/app-1"
        Path(names["log"]).touch()
        names |= {"trace": f"{folder}/orders.trace", "record": f"{folder}/new.trace", "first": f"{folder}/first.toml"}
        names |= {name: f"{folder}/{name}" for name in ("keys", "gone", "receipt", "signing")}
        for name, text in {"keys": KEY, "gone": "no-such-key", "signing": "k" * 32}.items():
            Path(names[name]).write_text(text)
        Path(names["trace"]).write_bytes(write_trace(HISTORY))
        migrate(names["store"])
        _run_a_job(names["store"])
        before = os.environ.get("XDG_STATE_HOME")
        os.environ["XDG_STATE_HOME"] = f"{folder}/state"
        try:
            for words, given in COMMANDS:
                zone = (
                    ("--timezone", "UTC")
                    if words in ("inspect", "plan", "explain", "layout", "verify", "service", "record")
                    else ()
                )
                command = [*words.split(), *(each.format(**names) for each in given), *zone, "--json"]
                out, err = io.StringIO(), io.StringIO()
                with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                    code = run(command)
                assert out.getvalue(), (command, code, err.getvalue())
                yield words, json.loads(out.getvalue())
        finally:
            if before is None:
                del os.environ["XDG_STATE_HOME"]
            else:
                os.environ["XDG_STATE_HOME"] = before


def _run_a_job(url: str) -> None:
    """A job that has ended, in the store."""
    store = open_store(url, clock=SystemClock())
    store.jobs.begin(JobRecord("j1", "orders", "compaction", 1.0))
    store.jobs.end("j1", "committed", None, at=61.0, instant="t9", figures=asdict(JobFigures()))
    load = ReadLoad()
    cost = JobCost({"log-ratio": 1}, load, load, 9.0, 2.0, 4.0, 3.0)
    detail = detail_of(JobReport(JobResult.COMMITTED, cost=cost), {"merge": 1.0})
    store.jobs.record_cost(
        CostRecord(
            *("j1", "orders", "compaction", "1970-01", 61.0, "committed", 60.0),
            predicted_seconds=cost.predicted_seconds,
            cpu_seconds=cost.cpu_seconds,
            task_seconds=cost.task_seconds,
            saved_seconds_a_day=cost.saved_seconds_a_day,
            detail=detail,
        )
    )
    store.close()


NULL, MISSING = "null", "missing"


def _shape(value: Any, name: str = "") -> Any:
    """A type by name; a dictionary for an object, a list of at most one for a list."""
    if isinstance(value, dict):
        found = {key: _shape(each, key) for key, each in value.items()}
        if name in MAPS:
            return ("by name", _all_merged(list(found.values())))
        return found
    if isinstance(value, list):
        return [_all_merged([_shape(each) for each in value])] if value else []
    for kind, text in ((bool, "boolean"), (int, "number"), (float, "number"), (str, "text")):
        if isinstance(value, kind):
            return text
    return NULL


def _all_merged(shapes: Sequence[Any]) -> Any:
    merged = shapes[0] if shapes else MISSING
    for shape in shapes[1:]:
        merged = _merged(merged, shape)
    return merged


def _merged(one: Any, other: Any) -> Any:
    if one == other or other == MISSING:
        return one
    if one == MISSING:
        return other
    if isinstance(one, dict) and isinstance(other, dict):
        return {
            key: _maybe(one[key] if key in one else other[key])
            if (key in one) != (key in other)
            else _merged(one[key], other[key])
            for key in [*one, *(key for key in other if key not in one)]
        }
    if isinstance(one, list) and isinstance(other, list):
        return [_merged(one[0], other[0])] if one and other else one or other
    if NULL in (one, other):
        return _maybe(other if one == NULL else one)
    if isinstance(one, tuple) and isinstance(other, tuple):
        if one[0] == other[0]:
            return (one[0], _merged(one[1], other[1]))
        return _maybe(_merged(*(each[1] if each[0] == "?" else each for each in (one, other))))
    if isinstance(one, tuple) and one[0] == "?":
        return _maybe(_merged(one[1], other))
    if isinstance(other, tuple) and other[0] == "?":
        return _maybe(_merged(one, other[1]))
    return " or ".join(sorted({*str(one).split(" or "), *str(other).split(" or ")}))


def _maybe(shape: Any) -> Any:
    return shape if shape == NULL or (isinstance(shape, tuple) and shape[0] == "?") else ("?", shape)


def _lines(shape: Any, indent: str = "") -> Iterator[str]:
    """The fields of an object, or of the objects of a list, one a line."""
    shape = _fields_of(shape)
    if not isinstance(shape, dict):
        yield f"{indent}{_named(shape)}"
        return
    for key, each in shape.items():
        yield f"{indent}{key}: {_named(each)}"
        if isinstance(_fields_of(each), dict):
            yield from _lines(each, f"{indent}  ")


def _fields_of(shape: Any) -> Any:
    while isinstance(shape, tuple) or (isinstance(shape, list) and shape):
        shape = shape[-1]
    return shape


def _named(shape: Any) -> str:
    if isinstance(shape, tuple):
        return f"{_named(shape[1])}?" if shape[0] == "?" else f"by name, {_named(shape[1])}"
    if isinstance(shape, list):
        return f"list of {_named(shape[0])}" if shape else "list"
    return "object" if isinstance(shape, dict) else str(shape)


if __name__ == "__main__":
    DOCUMENT.write_text(page())
