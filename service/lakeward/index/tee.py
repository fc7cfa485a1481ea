"""The index by which the writers of a table go, and the other one held against it: what the table itself says.

    <table>/.hoodie/.lakeward/index/tee/manifest-…    the greatest is what holds (`index/manifest_form`)

It names a *primary*, by which `lakeward write` goes where no index is named, and while there is one a *shadow*: writes
put their part into both, the primary answers, and the answers of the shadow are held against it for the keys of new
commits. A commit is *clean* where the shadow was wrong of none of its keys; how many were is kept, and not which.

Touches: nothing; `read_tee` the folder, reading.
Keeps:   1. what was compared counts for the primary and the shadow that it was compared of alone;
         2. a file that is damaged is refused, and never read as if there were none.
See:     docs/decisions/0086-two-indexes-side-by-side.md
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import takewhile
from typing import Any, Final

from lakeward.base.errors import Refused
from lakeward.base.paths import join
from lakeward.index.index_type import LookupType, lookup_type
from lakeward.index.manifest_form import ManifestForm, TableChoice
from lakeward.index.out_of_use import FOLDER
from lakeward.storage.storage import Storage
from lakeward.table.table_config import hoodie_folder


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
class Tee(TableChoice):
    primary: LookupType | None = None
    """None: nothing is chosen, and writers use what the table shows."""
    shadow: LookupType | None = None
    through: str | None = None
    """What completed up to this time is compared, or was there when the two were chosen; None: nothing is."""
    is_cut_over: bool = False
    """Primary and shadow were the other way round before, so that there is a way back."""
    compared: int = 0
    """Commits that were compared since the two were chosen,"""
    wrong: int = 0
    """those of them that are not clean,"""
    last_wrong: ComparedCommit | None = None
    """and the last one of these."""
    clean: int = 0
    """Clean commits in a row, up to the last one that was compared."""
    keys: int = 0
    """Keys of these commits for which both were asked,"""
    keys_wrong: int = 0
    """and locations of which the shadow was wrong."""

    @property
    def summary(self) -> str:
        """What was found, in a sentence."""
        return (
            f"Compared {self.compared:,} commits ({self.keys:,} keys): the shadow was wrong in {self.wrong:,} commits, "
            f"{self.keys_wrong:,} locations; {self.clean:,} clean in a row."
        )

    def with_compared(self, commits: Sequence[ComparedCommit]) -> Tee:
        """
        Args:
            commits: the next ones, in order of completion; one at least.
        """
        wrong = [commit for commit in commits if not commit.is_clean]
        last = sum(1 for _ in takewhile(lambda commit: commit.is_clean, reversed(commits)))
        return replace(
            self,
            through=commits[-1].completed,
            compared=self.compared + len(commits),
            wrong=self.wrong + len(wrong),
            last_wrong=wrong[-1] if wrong else self.last_wrong,
            clean=last if wrong else self.clean + last,
            keys=self.keys + sum(commit.keys for commit in commits),
            keys_wrong=self.keys_wrong + sum(commit.shadow_wrong for commit in commits),
        )


def cut_over(tee: Tee, *, after_clean: int) -> Tee:
    """The shadow becomes the primary, and the other way round. Raises `Refused`.

    Args:
        after_clean: so many commits in a row must be clean, the last one that was compared among them.
    """
    _check_has_shadow(tee)
    if tee.clean < after_clean:
        last = tee.last_wrong
        why = f"{tee.clean:,} in a row are clean"
        why += "." if last is None else f"; of {last.instant} it was wrong of {last.shadow_wrong:,} locations."
        raise Refused(
            f"The {tee.shadow} index does not take the place of the {tee.primary} index yet.",
            why=f"{after_clean:,} clean commits were asked for, and {why}",
            remedy="Compare what comes with `lakeward index tee TABLE`; where the shadow is wrong, `lakeward index "
            f"rebuild TABLE --type {tee.shadow}`.",
        )
    return Tee(primary=tee.shadow, shadow=tee.primary, through=tee.through, is_cut_over=True)


def cut_back(tee: Tee) -> Tee:
    """What held before the cut-over. Raises `Refused` where there was none since the tee began."""
    _check_has_shadow(tee)
    if not tee.is_cut_over:
        raise Refused(
            "There is no way back: the table's indexes were not cut over.",
            why=f"Writers use the {tee.primary} index, as when the tee began.",
            remedy="Leave --back out to cut over.",
        )
    return Tee(primary=tee.shadow, shadow=tee.primary, through=tee.through)


def _check_has_shadow(tee: Tee) -> None:
    if tee.shadow is None:
        raise Refused(
            "The table has no index that is held against another one.",
            why="No tee was begun." if tee.primary is None else "No tee is under way.",
            remedy="Begin one: `lakeward index tee TABLE --primary TYPE --shadow TYPE`.",
        )


def _document(tee: Tee) -> Mapping[str, Any]:
    return {name: value for name, value in asdict(tee).items() if name != "number"}


def _tee(number: int, document: Mapping[str, Any]) -> Tee:
    named = ("through", "is_cut_over", "compared", "wrong", "keys", "keys_wrong", "clean", "by")
    said = {name: document[name] for name in named}
    primary, shadow = (None if (of := document[name]) is None else lookup_type(of) for name in ("primary", "shadow"))
    last = document["last_wrong"]
    return Tee(number, primary, shadow, last_wrong=None if last is None else ComparedCommit(**last), **said)


TEE_FORM: Final = ManifestForm(
    index="the choice of the table's indexes",
    remedy="Restore the file; or delete the folder it is in, and choose again with `lakeward index tee`.",
    version=1,
    document_of=_document,
    manifest_of=_tee,
    number_of=lambda name: None,
)


def tee_folder(base_path: str) -> str:
    return join(hoodie_folder(base_path), FOLDER, "tee")


def read_tee(storage: Storage, base_path: str) -> Tee:
    """What holds. Raises what `ManifestForm.decode` does."""
    return TEE_FORM.read_newest(storage, tee_folder(base_path)) or Tee()
