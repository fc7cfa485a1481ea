"""How far one must read to see how a plan is claimed, and where a commit becomes visible."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import CodeType, FrameType

import grimp
import pytest

import lakeward
from lakeward.engine.task.operation import run_operation
from lakeward.protocol.attempts.attempt import Attempt
from lakeward.protocol.lock.storage_lock import StorageLockOptions
from lakeward.services.compaction.run.claim import claim_plan
from tests.golden_tables import copy_golden
from tests.memory_objects import MemoryObjects, Objects
from tests.object_tables import bring
from tests.services.bench import Bench

MODULES_MAX = 15
FUNCTIONS_MAX = 40
STEPS_UP_MAX = 6

PACKAGE = f"{Path(lakeward.__file__).parent}/"
PROTOCOL = {
    method.__code__
    for method in (
        Attempt.claim,
        Attempt.list_markers,
        Attempt.is_own,
        Attempt.check_held,
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
    modules = sorted(module for module in followed.modules if not module.startswith(("storage/", "base/paths")))
    assert "protocol/transition" in modules, "the way was not followed"
    assert len(modules) <= MODULES_MAX, "\n".join(modules)
    assert sorted(followed.steps_up) == []


def test_a_claim_is_forty_functions(bench: Bench) -> None:
    """`claim_plan` goes through at most 40 functions of `protocol` and of compaction (39, in 17 modules), and at most 6
    times from a module into one that imports it (never, as it is).

    A function counts whose code runs. Constructors and properties do not, nor what a comprehension or a lambda does,
    nor the rows of refusals, nor the implementations of `Storage` and `TableLock`.
    """
    in_objects = isinstance(bench.storage, MemoryObjects)
    options = {"lock": StorageLockOptions(wait_seconds=0.0)} if in_objects else {}
    functions: set[str] = set()
    steps: set[tuple[str, str]] = set()
    depth = 0

    def called(frame: FrameType, event: str, arg: object) -> None:
        nonlocal depth
        if event in ("call", "return") and frame.f_code is claim_plan.__code__:
            depth += 1 if event == "call" else -1
        module = module_of(frame.f_code)
        if event != "call" or not depth or module is None or not is_counted(module, frame.f_code):
            return
        functions.add(f"{module}: {frame.f_code.co_qualname}")
        caller = frame.f_back
        while caller is not None and module_of(caller.f_code) is None:
            caller = caller.f_back
        assert caller is not None
        steps.add((str(module_of(caller.f_code)), module))

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        (plan,) = bench.compactor(**options).compact().plans
    finally:
        sys.setprofile(before)
    assert plan.completion_time is not None
    assert "protocol/attempts/attempt: Attempt.claim" in functions, "the way was not followed"
    assert len(functions) <= FUNCTIONS_MAX, "\n".join([f"{len(functions)}:", *sorted(functions)])
    graph = grimp.build_graph("lakeward")
    up = [
        (low, high)
        for low, high in sorted(steps)
        if low != high and graph.chain_exists(importer=dotted(high), imported=dotted(low))
    ]
    assert len(up) <= STEPS_UP_MAX, up


def is_counted(module: str, code: CodeType) -> bool:
    if not module.startswith(("protocol/", "services/")) or module.startswith("protocol/lock/"):
        return False
    name = code.co_name
    return module != "protocol/refusals/findings" and name != "__init__" and name[0] != "<" and not is_property(code)


def is_property(code: CodeType) -> bool:
    """Whether it is the getter of a property of a class of its module."""
    owner: object = sys.modules[dotted(str(module_of(code)))]
    for name in code.co_qualname.split("."):
        owner = getattr(owner, name, None)
    return isinstance(owner, property)


def dotted(module: str) -> str:
    return f"lakeward.{module.replace('/', '.')}"


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
    """`protocol/attempts/attempt`; None where it is not that attempt's."""
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
