"""The index by which the writers of a table go, and the other one held against it: what the table itself says.

    <table>/.hoodie/.lakeward/index/tee/choice-<20 digits>.json               the greatest is what holds
                                       /compared-<choice>-<20 digits>.json    what comparisons found under a choice

Each is created once. A choice names a *primary*, by which `lakeward write` goes where no index is named, and while
there is one a *shadow*: writes put their part into both, the primary answers, and the answers of the shadow are held
against it for the keys of new commits. A commit is *clean* where the shadow was wrong of none of its keys.

Touches: nothing; `read_tee` the folder, reading.
Keeps:   1. what was compared counts under its own choice alone;
         2. a file that is damaged is refused, and never read as if there were none.
See:     docs/decisions/0086-two-indexes-side-by-side.md
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import takewhile
from typing import Any, Final

from lakeward.errors import BrokenFile, NotFound, Refused, TryLater, Unsupported
from lakeward.index.index_type import IndexType
from lakeward.index.out_of_use import FOLDER
from lakeward.storage.storage import Storage, join
from lakeward.table.table_config import hoodie_folder

TEE_VERSION: Final = 1
TRIES: Final = 3
_NAME = re.compile(r"choice-(?P<choice>\d{20})\.json|compared-(?P<under>\d{20})-(?P<number>\d{20})\.json")


@dataclass(frozen=True, slots=True)
class ChosenIndexes:
    number: int
    primary: IndexType | None
    """None: nothing is chosen any more, and writers go by what the table shows."""
    shadow: IndexType | None = None
    since: str | None = None
    """What completed after this time is compared; None: all."""
    is_cut_over: bool = False
    """Primary and shadow were the other way round before, so that there is a way back."""


@dataclass(frozen=True, slots=True)
class ComparedCommit:
    instant: str
    completed: str
    keys: int
    """Keys for which both were asked."""
    shadow_wrong: int
    """Locations that the shadow lacks, or that it names and that have no row."""
    primary_wrong: int

    @property
    def is_clean(self) -> bool:
        return self.shadow_wrong == 0


@dataclass(frozen=True, slots=True)
class Tee:
    """The choice that holds, and what was compared under it."""

    choice: ChosenIndexes
    commits: tuple[ComparedCommit, ...] = ()
    """In order of completion."""
    runs: int = 0
    """Files of comparisons that there are."""

    @property
    def through(self) -> str | None:
        """What completed up to this time is compared."""
        return self.commits[-1].completed if self.commits else self.choice.since

    @property
    def clean(self) -> int:
        """Clean commits in a row, up to the last one that was compared."""
        return sum(1 for _ in takewhile(lambda commit: commit.is_clean, reversed(self.commits)))


def next_choice(
    before: Tee | None, *, primary: IndexType | None, shadow: IndexType | None, since: str | None
) -> ChosenIndexes:
    """The choice that follows what holds."""
    return ChosenIndexes(1 if before is None else before.choice.number + 1, primary, shadow, since)


def cut_over(tee: Tee, *, after_clean: int) -> ChosenIndexes:
    """The shadow becomes the primary, and the other way round. Raises `Refused`.

    Args:
        after_clean: so many commits in a row must be clean, the last one that was compared among them.
    """
    choice = tee.choice
    if choice.primary is None or choice.shadow is None:
        raise _no_shadow()
    if tee.clean < after_clean:
        wrong = [commit for commit in tee.commits if not commit.is_clean]
        why = f"{tee.clean:,} in a row are clean"
        why += f"; of {wrong[-1].instant} it was wrong of {wrong[-1].shadow_wrong:,} locations." if wrong else "."
        raise Refused(
            f"The {choice.shadow} index does not take the place of the {choice.primary} index yet.",
            why=f"{after_clean:,} clean commits were asked for, and {why}",
            remedy="Compare what comes with `lakeward index tee TABLE`; where the shadow is wrong, `lakeward index "
            f"rebuild TABLE --type {choice.shadow}`.",
        )
    return ChosenIndexes(choice.number + 1, choice.shadow, choice.primary, tee.through, is_cut_over=True)


def cut_back(tee: Tee) -> ChosenIndexes:
    """What held before the cut-over. Raises `Refused` where there was none since the tee began."""
    choice = tee.choice
    if choice.primary is None or choice.shadow is None:
        raise _no_shadow()
    if not choice.is_cut_over:
        raise Refused(
            "There is no way back: the table's indexes were not cut over.",
            why=f"Writers go by the {choice.primary} index, as when the tee began.",
            remedy="Leave --back out to cut over.",
        )
    return ChosenIndexes(choice.number + 1, choice.shadow, choice.primary, tee.through)


def _no_shadow() -> Refused:
    return Refused(
        "The table has no index that is held against another one.",
        why="No tee is under way.",
        remedy="Begin one: `lakeward index tee TABLE --primary TYPE --shadow TYPE`.",
    )


def tee_folder(base_path: str) -> str:
    return join(hoodie_folder(base_path), FOLDER, "tee")


def choice_path(base_path: str, number: int) -> str:
    return join(tee_folder(base_path), f"choice-{number:020}.json")


def compared_path(base_path: str, choice: int, number: int) -> str:
    return join(tee_folder(base_path), f"compared-{choice:020}-{number:020}.json")


def list_tee(storage: Storage, base_path: str) -> tuple[list[int], dict[int, list[int]]]:
    """The numbers of the choices, and those of the comparisons under each of them."""
    choices: list[int] = []
    runs: dict[int, list[int]] = {}
    for status in storage.list(tee_folder(base_path)):
        found = _NAME.fullmatch(status.name)
        if found is None or status.is_folder:
            continue
        if found["choice"] is not None:
            choices.append(int(found["choice"]))
        else:
            runs.setdefault(int(found["under"]), []).append(int(found["number"]))
    return sorted(choices), {under: sorted(numbers) for under, numbers in runs.items()}


def read_tee(storage: Storage, base_path: str) -> Tee | None:
    """What holds; None of a table for which nothing was ever chosen. Raises `BrokenFile`, `Unsupported`, and `TryLater`
    where choices are made all the time."""
    for _ in range(TRIES):
        choices, runs = list_tee(storage, base_path)
        if not choices:
            return None
        try:
            return _read(storage, base_path, choices[-1], runs.get(choices[-1], ()))
        except NotFound:
            continue  # deleted, since another choice was made
    raise TryLater(
        "The choice of the table's indexes changes all the time.",
        why=f"What {tee_folder(base_path)} listed was gone when it was read, {TRIES} times.",
        remedy="Run the command again.",
    )


def _read(storage: Storage, base_path: str, number: int, runs: Sequence[int]) -> Tee:
    path = choice_path(base_path, number)
    choice = decode_choice(storage.read(path), path=path, number=number)
    commits: list[ComparedCommit] = []
    for run in runs:
        path = compared_path(base_path, number, run)
        commits += decode_compared(storage.read(path), path=path)
    return Tee(choice, tuple(commits), len(runs))


def encode_choice(choice: ChosenIndexes) -> bytes:
    return _encoded({name: value for name, value in asdict(choice).items() if name != "number"})


def encode_compared(commits: Sequence[ComparedCommit]) -> bytes:
    return _encoded({"commits": [asdict(commit) for commit in commits]})


def decode_choice(data: bytes, *, path: str, number: int) -> ChosenIndexes:
    """Raises `BrokenFile`, and `Unsupported` for one of a later release."""
    document = _decoded(data, path)
    try:
        primary, shadow = (_type(document[name]) for name in ("primary", "shadow"))
        return ChosenIndexes(number, primary, shadow, document["since"], document["is_cut_over"])
    except (ValueError, KeyError, TypeError) as error:
        raise _broken(path, error) from None


def decode_compared(data: bytes, *, path: str) -> list[ComparedCommit]:
    """Raises as `decode_choice` does."""
    document = _decoded(data, path)
    try:
        return [ComparedCommit(**row) for row in document["commits"]]
    except (KeyError, TypeError) as error:
        raise _broken(path, error) from None


def _encoded(document: dict[str, Any]) -> bytes:
    return json.dumps({"version": TEE_VERSION} | document, indent=1).encode() + b"\n"


def _decoded(data: bytes, path: str) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads(data)
        version = document["version"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _broken(path, error) from None
    if version != TEE_VERSION:
        raise Unsupported(
            f"{path} has version {version}.",
            why=f"This release reads version {TEE_VERSION}.",
            remedy="Use the release that wrote it.",
        )
    return document


def _type(said: str | None) -> IndexType | None:
    return None if said is None else IndexType(said)


def _broken(path: str, error: Exception) -> BrokenFile:
    return BrokenFile(
        f"{path} is broken, so that it is not known by which index the table's writers go.",
        why=f"{type(error).__name__}: {error}.",
        remedy="Restore the file; or delete the folder it is in, and choose again with `lakeward index tee`.",
    )
