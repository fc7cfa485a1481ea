"""How far one must read to see where a commit becomes visible: the way of a claim through `publish`."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import CodeType, FrameType

import pytest

import lakeward
from lakeward.engine.task.operation import run_operation
from lakeward.protocol.attempts.attempt import Attempt
from lakeward.protocol.lock.storage_lock import StorageLockOptions
from tests.golden_tables import copy_golden
from tests.memory_objects import MemoryObjects, Objects
from tests.object_tables import bring
from tests.services.bench import Bench

MODULES_MAX = 15

PACKAGE = f"{Path(lakeward.__file__).parent}/"
PROTOCOL = {
    method.__code__
    for method in (
        Attempt.claim,
        Attempt.list_markers,
        Attempt.is_ours,
        Attempt.check_ours,
        Attempt.stage,
        Attempt.publish,
    )
}


@pytest.fixture(params=["v9", "v9_metadata", "v9 in an object store"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    version, _, place = request.param.partition(" ")
    bench = Bench(copy_golden(version, tmp_path / "table"))
    if place:
        bench.storage = MemoryObjects(Objects())  # type: ignore[assignment]
        bench.base = Path(bring(bench.base, bench.storage, "/table"))
        bench.run = partial(run_operation, bench.storage)
    return bench


def test_a_claim_is_soon_followed_to_its_commit(bench: Bench) -> None:
    """Following an attempt at a FULL compaction from `Attempt.claim` to the end of `Attempt.publish` leads through at
    most 15 modules, and never back up into a higher room.

    A module counts whose code runs while a method of the attempt does, which the service calls in between; those of
    `storage`, through whose protocol every effect goes, do not. A step back up is a line that calls into a higher room
    than its own, in the order that the import contract has.
    """
    followed = Followed(rooms())
    in_objects = isinstance(bench.storage, MemoryObjects)
    options = {"lock": StorageLockOptions(wait_seconds=0.0), "writers_stopped": False} if in_objects else {}
    with followed.watching():
        (plan,) = bench.compactor(**options).compact().plans
    assert plan.completion_time is not None
    modules = sorted(module for module in followed.modules if not module.startswith("storage/"))
    assert "protocol/transition" in modules, "the way was not followed"
    assert len(modules) <= MODULES_MAX, "\n".join(modules)
    assert sorted(followed.steps_up) == []


class Followed:
    """What is called while an attempt's methods run, until its `publish` ends."""

    def __init__(self, rooms: dict[str, int]) -> None:
        self.modules: set[str] = set()
        self.steps_up: set[tuple[str, int, str]] = set()
        self._rooms = rooms
        self._depth = 0
        self._is_published = False

    @contextmanager
    def watching(self) -> Iterator[None]:
        before = sys.getprofile()
        sys.setprofile(self._called)
        try:
            yield
        finally:
            sys.setprofile(before)

    def _called(self, frame: FrameType, event: str, arg: object) -> None:
        if event not in ("call", "return") or self._is_published:
            return
        if frame.f_code in PROTOCOL:
            self._depth += 1 if event == "call" else -1
            self._is_published = event == "return" and frame.f_code is Attempt.publish.__code__
        module = module_of(frame.f_code)
        if event == "return" or not self._depth or module is None:
            return
        self.modules.add(module)
        caller = frame.f_back
        while caller is not None and module_of(caller.f_code) is None:
            caller = caller.f_back
        if caller is None or frame.f_code in PROTOCOL:
            return
        calling = module_of(caller.f_code)
        assert calling is not None
        if self._rooms[room_of(module)] < self._rooms[room_of(calling)]:
            self.steps_up.add((calling, caller.f_lineno, module))


def module_of(code: CodeType) -> str | None:
    """`protocol/attempts/attempt`; None where it is not ours."""
    name = code.co_filename
    return name.removeprefix(PACKAGE).removesuffix(".py") if name.startswith(PACKAGE) else None


def room_of(module: str) -> str:
    return module.partition("/")[0]


def rooms() -> dict[str, int]:
    """The order of rooms from above, as the import contract has it."""
    project = tomllib.loads((Path(__file__).parents[4] / "pyproject.toml").read_text())
    (contract,) = [
        each for each in project["tool"]["importlinter"]["contracts"] if each.get("containers") == ["lakeward"]
    ]
    return {room: rank for rank, line in enumerate(contract["layers"]) for room in line.split(" | ")}
