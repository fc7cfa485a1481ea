"""Why a file is still there, or what happened to it. The cases as text are in `file.cases`."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from lakeward.format.timeline.instant import parse_instant_time
from lakeward.services.clean.plan.keeper import Keeper, KeepReason
from lakeward.services.clean.plan.planner import plan_clean
from lakeward.services.clean.plan.storage_states import FileState
from lakeward.services.savepoint.savepoint_plan import pinned_by
from lakeward.services.together.explaining.file_explanation import FileExplainer, FileFacts, Gone, explain_in_sentences
from lakeward.storage.storage import FileStatus
from lakeward.table.file_system_view import sort_files
from lakeward.table.quarantine import Manifest, Quarantine, QuarantinedFile, QuarantinedRun, QuarantineKind
from lakeward.table.timeline.cleans import Clean
from lakeward.table.timeline.savepoints import Savepoint
from tests.services.clean.plan.clean_cases import path_of, read_table
from tests.services.compaction.plan.planner_cases import Case, read_cases
from tests.synthetic_table import minute

CASES = Path(__file__).with_name("file.cases")
START = parse_instant_time(minute(0), UTC) / 1000
OWN = {"file", "stray", "cleaned", "cleaning", "set", "rolled", "committed"}


def shown(case: Case) -> str:
    lines = [line.split() for line in case.table.splitlines()]
    table = read_table("\n".join(line for line in case.table.splitlines() if line.split()[0] not in OWN))
    facts: dict[str, Any] = {"cleans": [], "planned_deletions": {}, "rolled_back": {}, "committed": []}
    strays, asked = [], []
    for words in lines:
        match words:
            case ["file", file]:
                asked.append(path_of(file))
            case ["stray", file]:
                strays.append(path_of(file))
            case ["cleaned", time, *files]:
                names = tuple(path_of(file).rpartition("/")[2] for file in files)
                facts["cleans"].append(Clean(minute(int(time)), True, "", {"p": names}))
            case ["cleaning", time, *files]:
                facts["planned_deletions"][minute(int(time))] = frozenset(map(path_of, files))
            case ["set", "aside", time, "until", end, *files]:
                aside = tuple(QuarantinedFile("p", path_of(file).rpartition("/")[2], 10) for file in files)
                manifest = Manifest(QuarantineKind.CLEAN, START, START + 60 * int(end), True, aside)
                run = QuarantinedRun(minute(int(time)), QuarantineKind.CLEAN, (manifest,))
                facts["quarantine"] = Quarantine((run,))
            case ["rolled", "back", time, "by", by]:
                facts["rolled_back"][minute(int(time))] = minute(int(by))
            case ["committed", file]:
                facts["committed"].append(path_of(file))
    found = sort_files("p", (FileStatus(path.rpartition("/")[2], 7, 0.0, False) for path in strays))
    snapshot = table.snapshot()
    snapshot = replace(snapshot, files=(*snapshot.files, found))
    savepoints = [
        Savepoint(time, "u", "", START, {"p": frozenset(path.rpartition("/")[2] for path in paths)})
        for time, paths in snapshot.savepointed.items()
    ]
    outcome = plan_clean(snapshot, table.policy, now=table.now)
    explainer = FileExplainer(snapshot, outcome, FileFacts(pinned=pinned_by(savepoints, snapshot), **facts))
    sentences = [
        "\n".join(explain_in_sentences(explainer.explain(path), now=START + 86400, zone=UTC)) for path in asked
    ]
    return "\n".join(sentences)


@pytest.mark.parametrize("case", read_cases(CASES)[1], ids=lambda case: case.rule)
def test_case(case: Case) -> None:
    """Keeps 1 of services/together/explaining/file_explanation: the rule that the case is named for."""
    assert shown(case) == case.expected


def test_cases_are_written_as_the_code_would_write_them() -> None:
    """The file of cases is exactly what LAKEWARD_REWRITE_CASES=1 makes of it, so a rewrite shows only what changed."""
    head, cases = read_cases(CASES)
    blocks = [f"== {case.rule}\n{case.table}\n----\n{shown(case)}\n" for case in cases]
    written = "\n".join([head.rstrip("\n") + "\n", *blocks])
    if "LAKEWARD_REWRITE_CASES" in os.environ:
        CASES.write_text(written)
    assert CASES.read_text() == written


def test_each_reason_to_stay_has_its_sentence() -> None:
    """Keeps of services/clean/plan/keeper, Keeps 2 of services/together/explaining/file_explanation: a sentence for
    every reason and every verdict, none the same."""
    table = read_table("policy commits 1\ndone commit 10 20\ngroup a 10 20")
    snapshot = table.snapshot()
    explainer = FileExplainer(snapshot, plan_clean(snapshot, table.policy, now=0.0), FileFacts())
    found = explainer.explain(path_of("a@10"))

    def sentences(**changes: Any) -> str:
        return "\n".join(explain_in_sentences(replace(found, **changes), now=START, zone=None))

    shown = [
        sentences(keepers=(Keeper(reason, "1", consumer="c"),))
        for reason in KeepReason
        if reason is not KeepReason.NEWEST
    ]
    shown.append(sentences(keepers=(Keeper(KeepReason.CONSUMER, consumer="c", read_up_to="9"),)))
    assert len(set(shown)) == len(KeepReason)
    verdicts = {sentences(verdict=verdict, keepers=(), dead_by=()).split("\n", 1)[1] for verdict in (*FileState, *Gone)}
    assert len(verdicts) >= len(FileState) + len(Gone) - 2  # the superseded ones differ by what keeps them
