"""Processes that live and die when a test says so."""

from __future__ import annotations

from dataclasses import replace

from lakeward.protocol.owner import Owner, Processes
from lakeward.protocol.times.stillness import Stillness


class LookedOn(Stillness):
    """A process that has watched for long: what is old enough is judged at once, and no clock need run ahead of those
    of other processes meanwhile."""

    def seconds(self, name: str, state: object, *, monotonic: float) -> float:
        return float("inf")


class ScriptedProcesses(Processes):
    """Every owner is a process of its own; those whose attempt is in `dead` are provably dead."""

    def __init__(self) -> None:
        super().__init__()
        self.dead: set[int] = set()
        self.owners: list[Owner] = []

    def new_owner(self) -> Owner:
        owner = replace(super().new_owner(), attempt=1000 + len(self.owners))
        self.owners.append(owner)
        return owner

    def is_provably_dead(self, owner: Owner) -> bool:
        return owner.attempt in self.dead or owner.attempt in self._given_up

    def kill_all(self) -> None:
        self.dead |= {owner.attempt for owner in self.owners}
