"""Which runs of the quarantine go, and in which order."""

from __future__ import annotations

import pytest

from lakeward.services.clean.plan.purge_rules import PurgeReason, find_due
from lakeward.table.quarantine import Manifest, QuarantinedFile, QuarantinedRun, QuarantineKind


def run(text: str) -> QuarantinedRun:
    """`a since=0 until=10 bytes=5 purging undone broken empty`: one run."""
    name, *words = text.split()
    said = dict(word.partition("=")[::2] for word in words)
    manifest = Manifest(
        QuarantineKind.CLEAN,
        float(said.get("since", 0)),
        float(said.get("until", 100)),
        False,
        (QuarantinedFile("p", f"{name}.parquet", int(said.get("bytes", 1))),),
    )
    return QuarantinedRun(
        name,
        QuarantineKind.CLEAN,
        () if "empty" in said else (manifest,),
        is_purging="purging" in said,
        undone_by="u" if "undone" in said else None,
        problem="torn" if "broken" in said else None,
    )


@pytest.mark.parametrize(
    ("runs", "asked", "due"),
    [
        (["a until=50", "b until=51"], {}, {"a": "age"}),
        (["a until=51"], {}, {}),
        (["a purging", "b empty"], {}, {"a": "begun", "b": "begun"}),
        (["a since=20", "b since=21"], {"age_seconds_max": 30}, {"a": "age"}),
        (["a bytes=5", "b bytes=5", "c bytes=5"], {"bytes_max": 10}, {"a": "cap"}),
        (["a bytes=5", "b bytes=5", "c bytes=5"], {"bytes_max": 9}, {"a": "cap", "b": "cap"}),
        (["a bytes=5 until=9", "b bytes=5", "c bytes=5"], {"bytes_max": 10}, {"a": "age"}),
        (["a bytes=5"], {"bytes_max": 0}, {"a": "cap"}),
        (["a until=9 broken", "b until=9 undone", "c until=9"], {}, {"c": "age"}),
        (["a bytes=9 broken", "b bytes=9 undone", "c bytes=9"], {"bytes_max": 0}, {"c": "cap"}),
    ],
)
def test_what_is_due(runs: list[str], asked: dict[str, int], due: dict[str, str]):
    """What is old goes, then by the cap the oldest, no more than need be; what is unreadable or on its way back stays.
    Keeps 1 and 2 of services/clean/plan/purge_rules."""
    found = find_due([run(each) for each in runs], now=50.0, **{"bytes_max": None, **asked})  # type: ignore[arg-type]

    assert {each.run.run: each.reason for each in found} == {name: PurgeReason(why) for name, why in due.items()}
