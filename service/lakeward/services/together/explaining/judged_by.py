"""The settings by which `explain` says how long a file and an instant stay, and the source of each.

Touches: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakeward.services.archive.plan.hudi_archiver_keys import ArchiveOptions
from lakeward.services.clean.plan.policy import CleanPolicy


@dataclass(frozen=True, slots=True)
class JudgedBy:
    clean: CleanPolicy
    clean_because: str
    """Completes the sentence: So much is kept because ..."""
    archive: ArchiveOptions
    archive_because: str

    @property
    def sentence(self) -> str:
        clean, archive = self.clean, self.archive
        return (
            f"This is by a clean that keeps {clean.retain:,} {clean.kind}, because {self.clean_because}, and by an "
            f"archiver that leaves {archive.commits_min:,} to {archive.commits_max:,} commits, because "
            f"{self.archive_because}."
        )
