"""Two processes on one table with a metadata table, real ones, with each lock that a file system's table can have: one
is stopped or killed at a named step of publishing, the other one comes.

    data files in -> .requested -> .inflight -> log files in -> completed -> commit
                     \\______________ metadata table ______________/

Whatever the stopped one believes when it wakes up, nothing is committed twice, and both tables are whole.
"""

from __future__ import annotations

import signal
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest

from lakeward.base.errors import LakewardError, LockHeld, TryLater
from lakeward.protocol.lock.file_system_lock import SPARK_LOCK, FileSystemLockOptions
from lakeward.protocol.lock.zookeeper_options import ZooKeeperLockOptions
from lakeward.protocol.owner import Processes
from tests.crash.compacting import age_temporary_files, compact
from tests.crash.metadata_compacting import SERVICES, Service, check_finished, check_readable
from tests.crash.other_process import DEADLINE_SECONDS, OtherProcess, age, process, wait_until
from tests.faults import FaultyStorage, Killed
from tests.golden_tables import copy_golden
from tests.metadata_golden import GOLDEN, METADATA, METADATA_TIMELINE
from tests.processes import ScriptedProcesses

if TYPE_CHECKING:
    from kazoo.client import KazooClient

    from tests.servers import ZooKeeperServer

T = TypeVar("T")

pytestmark = pytest.mark.crash

FULL_SERVICE, LOG_SERVICE = SERVICES
STEPS = {
    "data-files": "[mr]*e {table}/p/",
    "requested": f"create {{table}}/{METADATA_TIMELINE}/*.deltacommit.requested",
    "inflight": f"create {{table}}/{METADATA_TIMELINE}/*.deltacommit.inflight",
    "first-log-file": f"[mr]*e {{table}}/{METADATA}/",
    "last-log-file": f"[mr]*e {{table}}/{METADATA}/partition_stats/",
    "metadata-commit": f"link {{table}}/{METADATA_TIMELINE}/",
    "commit": "link {table}/.hoodie/timeline/",
}
"""What a process that publishes is about to do, or has just done. A file is renamed or moved, as its storage likes."""

SESSION_SECONDS = 6.0


def steps_of_services(*, in_ci: str) -> list[object]:
    """Every step of every service; but for those named, they are left out of `make test`."""
    names = {f"{step}-{service.name}": (step, service) for step in STEPS for service in SERVICES}
    chosen = in_ci.split()
    assert names.keys() >= set(chosen)
    return [
        pytest.param(*values, id=name, marks=() if name in chosen else pytest.mark.wide)
        for name, values in names.items()
    ]


class FileLock:
    """It is taken from a holder that did not renew it for as long as its writers let it live."""

    options = FileSystemLockOptions(paths=(SPARK_LOCK,), wait_seconds=0.0)
    expiring = FileSystemLockOptions(paths=(SPARK_LOCK,), wait_seconds=0.0, expire_seconds=300.0)

    def run_out(self, base: Path) -> None:
        """Time passes for the stopped holder's lock."""
        age(base, SPARK_LOCK, seconds=600)


class ZooKeeperLock:
    """The server ends the session of a holder that is stopped."""

    def __init__(self, server: ZooKeeperServer, client: KazooClient, session_seconds: float) -> None:
        self._place = f"/{uuid.uuid4().hex}"
        self._client = client
        self.options = self.expiring = ZooKeeperLockOptions(
            server.url, self._place, session_seconds=session_seconds, wait_seconds=0.0
        )

    def run_out(self, base: Path) -> None:
        name = "".join(self._client.get_children(self._place))
        wait_until(lambda: not self._client.get_children(f"{self._place}/{name}"))


Lock = FileLock | ZooKeeperLock


@pytest.fixture(params=["filesystem", pytest.param("zookeeper", marks=pytest.mark.services)])
def lock(request: pytest.FixtureRequest) -> Iterator[Lock]:
    yield from opened(request, SESSION_SECONDS)


@pytest.fixture(params=["filesystem", pytest.param("zookeeper", marks=pytest.mark.services)])
def lasting_lock(request: pytest.FixtureRequest) -> Iterator[Lock]:
    """A lock that does not run out within a test."""
    yield from opened(request, 60.0)


def opened(request: pytest.FixtureRequest, session_seconds: float) -> Iterator[Lock]:
    if request.param == "filesystem":
        yield FileLock()
        return
    server: ZooKeeperServer = request.getfixturevalue("zookeeper")
    client = server.client()
    yield ZooKeeperLock(server, client, session_seconds)
    client.stop()
    client.close()


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return copy_golden(GOLDEN, tmp_path / "table")


def contents(base: Path) -> dict[str, bytes]:
    return {str(path.relative_to(base)): path.read_bytes() for path in sorted(base.rglob("*")) if path.is_file()}


@contextmanager
def stopped(base: Path, step: str, service: Service, lock: Lock) -> Iterator[OtherProcess]:
    """A process that publishes, stopped before that step, past its lock and its heartbeat."""
    call = STEPS[step].format(table=base)
    with process(base, call, "stop", service=service.name, lock=lock.options) as child:
        with pytest.raises(LockHeld):
            compact(base, FaultyStorage(), ScriptedProcesses(), service.planner, lock=lock.options)
        check_readable(base)
        lock.run_out(base)
        age(base, ".hoodie/.heartbeat/*", seconds=600)
        yield child


@pytest.mark.parametrize(
    ("step", "service"),
    steps_of_services(
        in_ci="requested-full first-log-file-log commit-full",
    ),
)
def test_who_is_stopped_past_its_lock_comes_too_late(base: Path, step: str, service: Service, lock: Lock) -> None:
    """Another process took its lock and its attempt and carried the plan out: it wakes up and changes nothing."""
    with stopped(base, step, service, lock) as child:
        report = compact(base, FaultyStorage(), ScriptedProcesses(), service.planner, lock=lock.expiring)
        assert [plan.recovered for plan in report.plans] == [True]
        check_finished(base, service)
        before = contents(base)
        said = child.wake()
        assert child.exit_code == 75, said
        assert contents(base) == before
    again = compact(base, FaultyStorage(), ScriptedProcesses(), service.planner, lock=lock.options)
    assert again.plans == ()
    check_finished(base, service)


def test_a_process_that_wakes_up_while_it_is_rolled_back_comes_too_late(base: Path, lock: Lock) -> None:
    """It wakes after its commit was looked for, and before anything of it is deleted: that is what its folder is
    renamed for. Its lock and its heartbeat were taken, and so it would find out; but it has looked at both already."""
    with stopped(base, "commit", FULL_SERVICE, lock) as child:
        said: list[str] = []
        storage = HookedStorage(MOMENTS["roll-back-metadata"].format(table=base), lambda: said.append(child.wake()))
        report = compact(base, storage, ScriptedProcesses(), lock=lock.expiring)
        assert child.exit_code == 75, said
        assert [plan.recovered for plan in report.plans] == [True]
    check_finished(base, FULL_SERVICE)


MOMENTS = {
    "aside": "rename {table}/.hoodie/.temp/",
    "roll-back-metadata": "make_folder {table}/.hoodie/.temp/",
    "roll-back-metadata-inflight": "[dr]e[ln]*e {table}/.hoodie/*.deltacommit.inflight",
    "roll-back-data-files": "remove {table}/p/",
    "roll-back-folder": "delete_folder {table}/.hoodie/.temp/",
    "roll-back-inflight": "delete {table}/.hoodie/timeline/",
    "heartbeat": "create {table}/.hoodie/.heartbeat/",
    "begin": "create {table}/.hoodie/timeline/",
    **STEPS,
}
"""What a process that takes over is about to do."""


class HookedStorage(FaultyStorage):
    """Something else happens right before the first call that reads like this."""

    def __init__(self, call: str, hook: Callable[[], None]) -> None:
        super().__init__()
        self._wanted = f"{call}*"
        self._hook = hook

    def _call(self, name: str, path: str, act: Callable[[], T], tear: Callable[[], None] | None = None) -> T:
        if fnmatchcase(f"{name} {path}", self._wanted):
            self._wanted = ""
            self._hook()
        return super()._call(name, path, act, tear)


class Sleeper:
    """A compaction on a thread, for it is woken up more often than processes can be had; asleep before that call."""

    def __init__(self, base: Path, call: str, processes: ScriptedProcesses, service: Service) -> None:
        self._asleep, self._go = threading.Event(), threading.Event()
        self._ended: list[LakewardError] = []
        storage = HookedStorage(call.format(table=base), self._sleep)

        def live() -> None:
            try:
                compact(base, storage, processes, service.planner, lock=FileLock.options)
            except LakewardError as error:
                self._ended.append(error)

        self._thread = threading.Thread(target=live)
        self._thread.start()
        wait_until(lambda: self._asleep.is_set() or not self._thread.is_alive())
        assert self._asleep.is_set(), "it never reached that step"

    def wake(self) -> None:
        """Let it go on to its end."""
        self._go.set()
        self._thread.join(DEADLINE_SECONDS)
        assert not self._thread.is_alive()

    @property
    def was_too_late(self) -> bool:
        assert all(error.exit_code == 75 for error in self._ended), self._ended
        return bool(self._ended)

    def _sleep(self) -> None:
        self._asleep.set()
        assert self._go.wait(DEADLINE_SECONDS)


@pytest.mark.slow
@pytest.mark.turns(20)
@pytest.mark.parametrize(("step", "service"), steps_of_services(in_ci="inflight-full commit-log"))
def test_who_wakes_up_in_the_middle(tmp_path: Path, step: str, service: Service) -> None:
    """A process is stopped in a takeover, before each of its steps: whichever of the two gives way, the rows are there
    at every moment, and the next run finishes."""
    for moment, call in MOMENTS.items():
        base = copy_golden(GOLDEN, tmp_path / moment)
        processes = ScriptedProcesses()
        sleeper = Sleeper(base, STEPS[step], processes, service)
        woken: list[str] = []

        def wake_up(base: Path = base, sleeper: Sleeper = sleeper, woken: list[str] = woken) -> None:
            woken.append("")
            sleeper.wake()
            check_readable(base)

        try:
            FileLock().run_out(base)
            age(base, ".hoodie/.heartbeat/*", seconds=600)
            storage = HookedStorage(call.format(table=base), wake_up)
            with suppress(LakewardError):
                compact(base, storage, processes, service.planner, lock=FileLock.expiring)
            check_readable(base)
            if not woken:  # that moment never came
                wake_up()
            # As long as its folder is where it was, nothing was taken from it: the other one finds its commit.
            assert sleeper.was_too_late == ((step, moment) != ("commit", "aside"))
            processes.kill_all()
            compact(base, FaultyStorage(), processes, service.planner, lock=FileLock.options)
            check_finished(base, service)
        except BaseException as error:
            error.add_note(f"asleep before {step}, awake before {moment}")
            raise


@pytest.mark.parametrize("moment", ["metadata-commit", "commit", "afterwards"])
def test_a_process_that_sleeps_while_it_rolls_back(base: Path, moment: str) -> None:
    """A process died between the two commits; A rolls back what it left, and is stopped before it takes `.inflight`;
    B, past A's lock, publishes under the same instant. A wakes up, and B's `.inflight` has the same name."""
    processes = ScriptedProcesses()

    def die() -> None:
        dying._dead = True
        raise Killed

    dying = HookedStorage(STEPS["commit"].format(table=base), die)
    with pytest.raises(Killed):
        compact(base, dying, processes, lock=FileLock.options)
    processes.kill_all()
    sleeper = Sleeper(base, MOMENTS["roll-back-metadata-inflight"], processes, FULL_SERVICE)
    FileLock().run_out(base)
    woken: list[dict[str, bytes]] = []

    def wake_up() -> None:
        before = contents(base)
        sleeper.wake()
        woken.append(before)
        assert {path: data for path, data in contents(base).items() if path.startswith(METADATA)} == {
            path: data for path, data in before.items() if path.startswith(METADATA)
        }

    storage = HookedStorage(MOMENTS.get(moment, moment).format(table=base), wake_up)
    report = compact(base, storage, processes, lock=FileLock.expiring)
    if not woken:
        wake_up()
    assert sleeper.was_too_late
    assert [plan.recovered for plan in report.plans] == [True]
    check_finished(base, FULL_SERVICE)


def test_two_at_once(base: Path, lasting_lock: Lock) -> None:
    """Two processes that begin together carry one plan out, once; both say that all is well."""
    with ExitStack() as both:
        lock = replace(lasting_lock.options, wait_seconds=60.0)
        one, other = (
            both.enter_context(process(base, "", "none", lock=lock, wait_seconds=60.0)) for _ in ("one", "other")
        )
        said = [one.end(), other.end()]
        assert (one.exit_code, other.exit_code) == (0, 0), said
    assert "".join(said).count("compacted ") == 1, said
    check_finished(base, FULL_SERVICE)


@pytest.mark.parametrize(
    ("call", "refusal"),
    [("open_output {table}/.hoodie/.temp/", TryLater), (STEPS["metadata-commit"], LockHeld)],
    ids=["while-it-merges", "while-it-publishes"],
)
def test_while_one_is_alive_the_other_waits(
    base: Path, call: str, refusal: type[LakewardError], lasting_lock: Lock
) -> None:
    """The process that waited finds nothing to do when the first one has finished."""
    with process(base, call.format(table=base), "stop", lock=lasting_lock.options) as child:
        before = contents(base)
        with pytest.raises(refusal):
            compact(base, FaultyStorage(), ScriptedProcesses(), lock=lasting_lock.options)
        assert contents(base) == before
        said = child.wake()
        assert child.exit_code == 0, said
    assert compact(base, FaultyStorage(), ScriptedProcesses(), lock=lasting_lock.options).plans == ()
    check_finished(base, FULL_SERVICE)


@pytest.mark.parametrize(("step", "service"), steps_of_services(in_ci="inflight-full metadata-commit-log"))
def test_kill_nine_and_run_again(base: Path, step: str, service: Service) -> None:
    """A process killed for real right after the step: the next one sees that it is dead, rolls back and finishes."""
    with process(base, STEPS[step].format(table=base), "kill", service=service.name) as child:
        assert child.exit_code == -signal.SIGKILL
    check_readable(base)
    age_temporary_files(base)
    compact(base, FaultyStorage(), Processes(), service.planner)
    check_finished(base, service)
