"""Write the matrix of refusals in docs/reference/compatibility.md, and each reason, from protocol/refusals/eligibility.

    python -m deploy.compatibility_page

Touches: that file.
"""

from __future__ import annotations

import re
from pathlib import Path

from lakeward.protocol.refusals.eligibility import ROWS, TableService

DOCUMENT = Path(__file__).parents[1] / "docs" / "reference" / "compatibility.md"

BEGIN, END = "<!-- made by `make compatibility-page`: begin -->", "<!-- made by `make compatibility-page`: end -->"

COLUMNS = {
    TableService.ARCHIVING: "archiving",
    TableService.CLEANING: "cleaning of the table",
    TableService.CLUSTERING: "clustering",
    TableService.COMPACTION: "compaction, full and log",
    TableService.INDEXING: "keeping and checking of indexes",
    TableService.METADATA: "compaction and cleaning of the metadata table",
    TableService.RESTORE: "going back to a commit",
    TableService.ROLLBACK: "rolling back of failed writes",
    TableService.SAVEPOINT: "making or deleting a savepoint",
    TableService.UNSCHEDULING: "unscheduling of a pending plan",
    TableService.UPGRADING: "upgrade or downgrade",
    TableService.READING: "`lakeward read`",
    TableService.VERIFICATION: "verification of merged rows",
    TableService.WRITING: "`lakeward write`",
}


def document(text: str) -> str:
    """`text` with the matrix and the reasons as they are now."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{matrix()}\n{reasons()}\n{END}{after}"


def matrix() -> str:
    lines = [
        f"| | refusal | {' | '.join(COLUMNS[service] for service in TableService)} |",
        "|---|---|" + "---|" * len(TableService),
    ]
    for row in ROWS:
        marks = " | ".join("refused" if service in row.stops else "runs" for service in TableService)
        lines.append(f"| {row.what} | `{row.id}` | {marks} |")
    return "\n".join([*lines, ""])


def reasons() -> str:
    """What `inspect` says of each row, where it names what it found in the table's own place: `…`."""
    lines = ["| refused | why | what helps |", "|---|---|---|"]
    for row in ROWS:
        why, remedy = (re.sub(r"\{\w+\}", "…", sentence).replace("|", "\\|") for sentence in (row.why, row.remedy))
        lines.append(f"| {row.what} | {why} | {remedy} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    DOCUMENT.write_text(document(DOCUMENT.read_text()))
