"""What is known of the table services that are begun on a table and not completed, and what the rule says of each.

Touches: reads heartbeats, and where a service has none the times of its markers, and of what an indexing is building.
Keeps:   a service of which any heartbeat beats, the table's or its metadata table's, is alive.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lakeward.base.clock import Clock
from lakeward.base.errors import TryLater
from lakeward.base.paths import join, parent
from lakeward.format.timeline.instant import Instant
from lakeward.protocol.attempts.attempt_files import temp_folder
from lakeward.protocol.attempts.heartbeat import Life, Liveness, read_liveness
from lakeward.protocol.owner import Processes
from lakeward.protocol.pending.rollback import Beat, RollbackDecision, RollbackReason
from lakeward.protocol.pending.stuck import (
    Deadline,
    ServiceFacts,
    decide_service,
    decide_services,
    is_begun_service,
    is_judged,
)
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.storage.storage import Storage
from lakeward.table.metadata.metadata_table import has_metadata_table, metadata_base_path
from lakeward.table.snapshot import TableSnapshot


@dataclass(frozen=True, slots=True)
class Judge:
    """Whose word about processes counts, and since when silence does."""

    storage: Storage
    base_path: str
    clock: Clock
    processes: Processes
    silent_after: float | None
    writers_stopped: bool = False

    @classmethod
    def of(cls, table: ServicedTable) -> Judge:
        options = table.options
        return cls(
            table.storage,
            table.base_path,
            table.clock,
            table.processes,
            options.silent_after,
            writers_stopped=options.writers_stopped,
        )

    def services(self, snapshot: TableSnapshot, *, asked: str | None = None) -> tuple[RollbackDecision, ...]:
        """What happens to each pending instant that is neither a write nor a rollback, the newest first.

        Args:
            asked: the instant that an operator named.
        """
        judged = [instant for instant in snapshot.timeline.pending if is_judged(instant, asked)]
        places = heartbeat_places(self.base_path, snapshot)
        return decide_services(
            snapshot.timeline,
            {instant.time: self._facts(snapshot, instant, self.beat(places, instant.time)) for instant in judged},
            self._deadline,
            rolled_back=frozenset(snapshot.rollback_targets.values()),
            asked=asked,
        )

    def why_maybe_at_work(self, snapshot: TableSnapshot, instant: str, liveness: Liveness) -> str | None:
        """Why an attempt at this instant is not to be taken over yet that has no heartbeat on the table; None where it
        may be, and where `liveness`, which is what that heartbeat says, proves more.
        """
        begun = next((each for each in snapshot.timeline.pending if each.time == instant), None)
        if liveness.life is not Life.ABSENT or begun is None or not is_begun_service(begun):
            return None
        beat = self.beat(heartbeat_places(self.base_path, snapshot)[1:], instant)
        rolled_back = frozenset(snapshot.rollback_targets.values())
        decision = decide_service(begun, self._facts(snapshot, begun, beat), self._deadline, rolled_back)
        at_work = (RollbackReason.MAYBE_AT_WORK, RollbackReason.LIVE_WRITER)
        return decision.why if decision.reason in at_work else None

    def liveness(self, instant: str) -> Liveness:
        """What the heartbeat of an instant on the table says."""
        return read_liveness(self.storage, self.base_path, instant, clock=self.clock, processes=self.processes)

    def beat(self, places: Iterable[str], instant: str) -> Beat:
        """What the heartbeats of an instant in these places say together."""
        lives = {
            read_liveness(self.storage, place, instant, clock=self.clock, processes=self.processes).life
            for place in places
        }
        if Life.ALIVE in lives:
            return Beat.ALIVE
        return Beat.ABSENT if lives <= {Life.ABSENT} else Beat.DEAD

    @property
    def _deadline(self) -> Deadline:
        return Deadline(self.clock.now(), self.silent_after, writers_stopped=self.writers_stopped)

    def _facts(self, snapshot: TableSnapshot, instant: Instant, beat: Beat) -> ServiceFacts:
        if beat is not Beat.ABSENT or self.writers_stopped:
            return ServiceFacts(beat)  # nothing else counts then
        return ServiceFacts(beat, self.last_sign(snapshot, instant))

    def last_sign(self, snapshot: TableSnapshot, instant: Instant) -> float:
        """When something of a pending instant changed last: its files on the timeline, or its markers; of an indexing
        what it is building, too."""
        timeline = snapshot.timeline
        signs = [timeline.modified[each.file_name] for each in timeline.instants if each.time == instant.time]
        folders = [temp_folder(self.base_path, instant.time)]
        if instant.action == "indexing":
            metadata = metadata_base_path(self.base_path)
            folders += [parent(temp_folder(metadata, "0"))]
            folders += [join(metadata, name) for name in snapshot.config.inflight_metadata_partitions]
        signs += [at for folder in folders for at in _modified(self.storage, folder)]
        return max(signs)


def check_nothing_lives(table: ServicedTable, snapshot: TableSnapshot, *, otherwise: str) -> None:
    """Raises `TryLater` for a heartbeat that beats.

    Args:
        otherwise: what would happen to its process, as the end of a sentence.
    """
    for each in snapshot.timeline.pending:
        for place in heartbeat_places(table.base_path, snapshot):
            judged = read_liveness(table.storage, place, each.time, clock=table.clock, processes=table.processes)
            if judged.life is Life.ALIVE:
                raise TryLater(
                    f"{each.action} {each.time} is under way.",
                    why=f"Its heartbeat is {judged.age_seconds:.0f} s old, and {otherwise}.",
                    remedy="Stop it where it runs, and run the command again; two minutes after the last heartbeat it "
                    "counts as dead.",
                )


def heartbeat_places(base_path: str, snapshot: TableSnapshot) -> tuple[str, ...]:
    """The base paths below which what works on the table has heartbeats."""
    metadata = (metadata_base_path(base_path),) if has_metadata_table(snapshot.config) else ()
    return (base_path, *metadata)


def _modified(storage: Storage, folder: str) -> Iterator[float]:
    """When each file below it changed last."""
    for status in storage.list(folder):
        if status.is_folder:
            yield from _modified(storage, status.path)
        else:
            yield status.modified
