"""The words of pages that a reader may not know: what each means, and where the docs say more.

The states of storage are those of `services/clean/plan/storage_states`; the rest is as in `docs/concepts.md`.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Word:
    meaning: str
    page: str = ""
    """A page of the docs, from their root: mostly the runbook of what can be wrong with it."""


GLOSSARY: Mapping[str, Word] = {
    "log": Word(
        "A file with rows and deletes that readers merge over the base file, until a compaction has done so.",
        "runbooks/logs-gather.md",
    ),
    "superseded": Word(
        "Logs that a log compaction has replaced; they stay until their slice is cleaned.",
        "runbooks/merged-logs-gather.md",
    ),
    "anchor": Word("A superseded log by which readers find the one that replaced it.", "services/compaction.md"),
    "oldest unmerged record": Word(
        "How long ago the oldest record was committed that is in logs only, beside the objective.",
        "runbooks/objective-breached.md",
    ),
    "objective": Word("No committed record stays in logs only for longer.", "runbooks/objective-breached.md"),
    "amplification": Word(
        "Read: bytes read for each byte that would be read if all was merged. Write: bytes written by all for each "
        "that writers wrote. Space: bytes on storage for each byte of live data."
    ),
    "debt": Word(
        "What the table's plan would take now, on all cores of this machine, at the price that its jobs showed.",
        "operate/sizing.md",
    ),
    "FULL": Word("Base and logs of a file group become a new base file.", "services/compaction.md"),
    "LOG": Word("Small logs of a file group become one log.", "services/compaction.md"),
    "NONE": Word("Nothing is done to the file group; the reason stands beside.", "services/compaction.md"),
    "parked": Word("Excluded for a time after failures.", "runbooks/file-group-parked.md"),
    "shadow": Word("The table is planned and shown, and never written to.", "runbooks/table-shadow.md"),
    "refused": Word("This release may not run a service on it.", "runbooks/table-refused.md"),
    "core-seconds": Word("Seconds of one core: two cores that are busy for a second are two.", "operate/sizing.md"),
    "live": Word("Files that readers read now."),
    "pinned": Word("Old files that a savepoint keeps.", "runbooks/savepoint-old.md"),
    "retained": Word("Old files that stay for running queries and incremental readers.", "services/clean.md"),
    "dead": Word("Old files that the next clean may delete.", "runbooks/clean-overdue.md"),
    "frozen": Word("Files that cannot be told apart without guessing.", "runbooks/files-damaged.md"),
    "uncommitted": Word("Files of writes that are under way, or died.", "runbooks/failed-write-left.md"),
    "orphan": Word("Data files that no commit and no plan names.", "services/files.md"),
    "quarantined": Word("Files that a clean took away, and that can come back.", "runbooks/quarantine-capped.md"),
}
