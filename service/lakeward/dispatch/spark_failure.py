"""What a failure on Spark says: of the long text of a Spark exception, the line that matters, and whose task it was.

Touches: nothing.
"""

from __future__ import annotations

import re

_NOTE = "lakeward spec "
_EXCEPTION_LINE = re.compile(r"(?!org\.|java\.|at |Caused by)[A-Za-z_.]*(Error|Exception)\b")


def mark(error: Exception, index: int) -> None:
    """On an executor: say in the traceback which spec the error belongs to."""
    error.add_note(f"{_NOTE}{index}")


def marked_index(error: Exception) -> int | None:
    """On the driver: which one it was; None where no task of ours lived to say so."""
    found = re.search(rf"^\s*{_NOTE}(\d+)\s*$", str(error), re.MULTILINE)
    return int(found.group(1)) if found else None


def what_happened(error: Exception) -> str:
    """The line of a Spark exception that says what happened: the last of the Python traceback in it, if any."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    python = [line for line in lines if _EXCEPTION_LINE.match(line)]
    return (python[-1] if python else lines[0] if lines else type(error).__name__)[:500]
