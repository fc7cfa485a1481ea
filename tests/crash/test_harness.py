"""The harness of the crash series sees a service that is not safe, and one that a fault never met."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.crash.harness import Case, Extent, Place, Row, cases_of, prepare, survive
from tests.faults import FaultKind
from tests.processes import ScriptedProcesses

NAMES = ("one", "two")


def write_both(base: Any, storage: Any, processes: ScriptedProcesses, **options: Any) -> None:
    """Safe: what is there stays, and what lacks comes."""
    for name in NAMES:
        if storage.stat(f"{base}/{name}") is None:
            storage.create(f"{base}/{name}", name.encode())


def write_again(base: Any, storage: Any, processes: ScriptedProcesses, **options: Any) -> None:
    """Unsafe: what is there is gone for a moment."""
    for name in NAMES:
        storage.delete(f"{base}/{name}")
        storage.create(f"{base}/{name}", name.encode())


class Lucky:
    """Makes fewer calls each time."""

    def __init__(self) -> None:
        self.times = 4

    def __call__(self, base: Any, storage: Any, processes: ScriptedProcesses, **options: Any) -> None:
        write_both(base, storage, processes)
        self.times -= 1
        for _ in range(self.times):
            storage.delete(f"{base}/not-there")


def row_of(run: Callable[..., None]) -> Row:
    def made(table: str, folder: Path) -> Case:
        (folder / ".hoodie").mkdir(parents=True)
        (folder / ".hoodie" / "hoodie.properties").touch()
        (folder / "one").write_bytes(b"one")

        def check_now(base: Path, whole: Path) -> None:
            assert (base / "one").exists(), "the first is gone"

        def check_end(base: Path, whole: Path) -> None:
            assert [(base / name).read_text() for name in NAMES] == list(NAMES)

        return Case(table=folder, run=run, check_now=check_now, check_end=check_end)

    return Row(make=made, table="t", disk=Extent(), store=Extent())


@pytest.mark.parametrize("place", Place)
def test_a_safe_service_survives(place: Place, tmp_path: Path) -> None:
    """Each copy is removed: what is left is the table, and the one on which every call went well."""
    prepared = prepare(row_of(write_both), place, tmp_path)
    assert [call.split()[0] for call in prepared.calls if call.split()[0] != "stat"] == ["create"]
    there = sorted(tmp_path.rglob("*"))
    for kind in FaultKind:
        survive(prepared, kind, tmp_path)
    assert sorted(tmp_path.rglob("*")) == there


@pytest.mark.parametrize("place", Place)
def test_an_unsafe_service_does_not(place: Place, tmp_path: Path) -> None:
    """The error names the fault and the call."""
    prepared = prepare(row_of(write_again), place, tmp_path)
    with pytest.raises(AssertionError, match="the first is gone") as error:
        for kind in FaultKind:
            survive(prepared, kind, tmp_path)
    # Which fault comes first depends on how much of a series is run.
    assert re.match(r"(before|lost-reply) at call [01] of 4: (create|delete) ", error.value.__notes__[0])


@pytest.mark.parametrize("place", Place)
def test_a_fault_that_is_not_met_is_an_error(place: Place, tmp_path: Path) -> None:
    """Otherwise a service that makes other calls each time would survive everything."""
    prepared = prepare(row_of(Lucky()), place, tmp_path)
    with pytest.raises(AssertionError, match="did not meet the fault"):
        for kind in (FaultKind.BEFORE, FaultKind.KILL):
            survive(prepared, kind, tmp_path)


@pytest.mark.parametrize("place", Place)
def test_a_service_that_writes_nothing_is_an_error(place: Place, tmp_path: Path) -> None:
    """It would survive every fault, and prove nothing."""

    def read_only(base: Any, storage: Any, processes: ScriptedProcesses, **options: Any) -> None:
        storage.stat(f"{base}/one")

    with pytest.raises(AssertionError, match="a service that writes nothing proves nothing"):
        prepare(row_of(read_only), place, tmp_path)


def test_a_row_is_run_where_it_has_an_extent() -> None:
    """A store does not know a torn write; what is in no extent is left to `make nightly`."""

    def cleaning(table: str, folder: Path) -> Case:
        raise NotImplementedError

    kinds = (FaultKind.KILL, FaultKind.BEFORE, FaultKind.LOST_REPLY)
    row = Row(make=cleaning, table="v9", disk=Extent(check=kinds[:1], test=kinds[:2]), store=Extent(test=()))
    marks = {case.id: [mark.name for mark in case.marks] for case in cases_of([row])}
    assert marks == {
        "cleaning-v9-disk-before": ["slow"],
        "cleaning-v9-disk-lost-reply": ["wide"],
        "cleaning-v9-disk-kill": [],
        "cleaning-v9-disk-torn": ["wide"],
        "cleaning-v9-store-before": ["wide"],
        "cleaning-v9-store-lost-reply": ["wide"],
        "cleaning-v9-store-kill": ["wide"],
    }
