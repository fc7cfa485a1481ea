"""Another release of Hudi, in a process of its own since a process has one, that writes and reads tables when asked.

    with OtherRelease("1.0.2", scratch) as hudi:
        table = hudi.table(path, shape)
        table.write("SELECT ...", "upsert")
        table.snapshot()

A question is a line of JSON, and so is its answer: `python -m tests.hudi.other_release VERSION SCRATCH ZONE` is the
process.

Touches: table folders on local disk, through the Spark of that process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from tests.hudi.client import write_records
from tests.hudi.spark import HudiMissing, start_spark
from tests.hudi.table import HudiTable, Rows, TableShape

MISSING = 3
"""Exit code: the bundle cannot be had."""


class OtherRelease:
    """The process; it ends with the `with`."""

    def __init__(self, version: str, scratch: Path, *, zone: str = "UTC") -> None:
        """
        Args:
            zone: that of the Java process, in which Hudi names instants of a LOCAL timeline.
        """
        scratch.mkdir(parents=True, exist_ok=True)
        self._errors = (scratch / "errors").open("w+")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.hudi.other_release", version, str(scratch), zone],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        if self._answer() != "ready":
            self._process.wait()
            raise HudiMissing(self._said())

    def __enter__(self) -> OtherRelease:
        return self

    def __exit__(self, *_: object) -> None:
        self._questions.close()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()

    def table(self, path: Path, shape: TableShape) -> OtherTable:
        return OtherTable(self, path, shape)

    def ask(self, question: Mapping[str, Any]) -> Any:
        self._questions.write(json.dumps(question) + "\n")
        self._questions.flush()
        answer = self._answer()
        assert answer is not None and "answer" in answer, (question, answer, self._said())
        return answer["answer"]

    @property
    def _questions(self) -> IO[str]:
        assert self._process.stdin is not None
        return self._process.stdin

    def _answer(self) -> Any:
        """None where the process has ended."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait()
            assert code == MISSING, self._said()
            return None
        return json.loads(line)

    def _said(self) -> str:
        self._errors.seek(0)
        return self._errors.read()[-5000:]


class OtherTable:
    """One table, as this release sees it. As `HudiTable`, but for rows, which are given as a query."""

    def __init__(self, release: OtherRelease, path: Path, shape: TableShape) -> None:
        self._release = release
        self.path = path
        self.shape = shape

    def at(self, path: Path) -> OtherTable:
        """A copy of it."""
        return OtherTable(self._release, path, self.shape)

    def write(self, query: str, operation: str, **options: str) -> None:
        self._ask("write", query=query, operation=operation, options=options)

    def write_records(self, schema: str, rows: Sequence[dict[str, Any]], operation: str, **options: str) -> None:
        """Rows as Avro records, by `tests/hudi/client`."""
        self._ask("records", schema=schema, rows=rows, operation=operation, options=options)

    def snapshot(self, *, with_meta: bool = False, **options: str) -> Rows:
        return tuple(self._ask("snapshot", with_meta=with_meta, options=options))

    def read_optimized(self, *, with_meta: bool = False, **options: str) -> Rows:
        return self.snapshot(with_meta=with_meta, **{"hoodie.datasource.query.type": "read_optimized"}, **options)

    def compaction(self, what: str, **options: str) -> str:
        """Hudi's procedure `run_compaction`, by the table's own settings. Returns the instant."""
        return str(self._ask("compaction", what=what, options=options))

    def procedure(self, what: str, **options: str) -> list[dict[str, str]]:
        """One of Hudi's, as `create_savepoint(path => '{path}', commit_time => '1')`; `{path}` is the table's,
        `{table}` a name that it has for that long. The options are set in the session meanwhile. Returns its rows."""
        return list(self._ask("procedure", what=what, options=options))

    def _ask(self, call: str, **arguments: object) -> Any:
        shape = {name: value for name, value in asdict(self.shape).items() if name != "options"}
        given = {"path": str(self.path), "shape": shape | {"options": dict(self.shape.options)}}
        return self._release.ask({"call": call, **given, **arguments})


def _answer(spark: Any, call: str, *, path: str, shape: dict[str, Any], options: dict[str, str], **more: Any) -> Any:
    table = HudiTable(spark, Path(path), TableShape(**shape))
    match call:
        case "write":
            table.write(spark.sql(more["query"]), more["operation"], **options)
            return None
        case "records":
            write_records(spark, table, more["schema"], more["rows"], more["operation"], **options)
            return None
        case "snapshot":
            return table.snapshot(with_meta=more["with_meta"], **options)
        case "compaction":
            settings = table.shape.write_options() | {"hoodie.compact.inline.max.delta.commits": "1"} | options
            # The procedure cuts them at each comma; lists of fields are in the table's properties, too.
            formatted = ",".join(f"{key}={value}" for key, value in settings.items() if "," not in value)
            what = f"{more['what']}, path => '{path}', options => '{formatted}'"
            (row,) = spark.sql(f"CALL run_compaction({what})").collect()
            return str(row["timestamp"])
        case "procedure":
            name = "asked"
            spark.sql(f"DROP TABLE IF EXISTS {name}")  # of a call that failed
            if "{table}" in more["what"]:
                spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
            for option, value in options.items():
                spark.conf.set(option, value)
            rows = spark.sql(f"CALL {more['what'].format(path=path, table=name)}").collect()
            for option in options:
                spark.conf.unset(option)
            spark.sql(f"DROP TABLE IF EXISTS {name}")
            return [{column: str(value) for column, value in row.asDict().items()} for row in rows]
    raise ValueError(call)


def main(version: str, scratch: Path, zone: str) -> None:
    # What Spark and Hudi print goes with their errors.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        spark = start_spark(scratch=scratch, version=version, zone=zone)
    except HudiMissing as missing:
        print(missing, file=sys.stderr)
        sys.exit(MISSING)
    print(json.dumps("ready"), file=answers, flush=True)
    for line in sys.stdin:
        try:
            answer = {"answer": _answer(spark, **json.loads(line))}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
