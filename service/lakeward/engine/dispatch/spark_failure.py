"""What a failure on Spark says: of the long text of a Spark exception, the line that matters, and whose task it was.

Touches: nothing.
"""

from __future__ import annotations

import base64
import pickle
import re
from typing import cast

from lakeward.base.errors import LakewardError

_NOTE = "lakeward spec "
_CARRIED = "lakeward error "
_EXCEPTION_LINE = re.compile(r"(?!org\.|java\.|at |Caused by)[A-Za-z_.]*(Error|Exception)\b")


def mark(error: Exception, index: int) -> None:
    """On an executor: say in the traceback which spec the error belongs to."""
    error.add_note(f"{_NOTE}{index}")


def marked_index(error: Exception) -> int | None:
    """On the driver: which one it was; None where no task of Lakeward lived to say so."""
    found = re.search(rf"^\s*{_NOTE}(\d+)\s*$", str(error), re.MULTILINE)
    return int(found.group(1)) if found else None


def what_happened(error: Exception) -> str:
    """The line of a Spark exception that says what happened: the last of the Python traceback in it, if any."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    python = [line for line in lines if _EXCEPTION_LINE.match(line)]
    return (python[-1] if python else lines[0] if lines else type(error).__name__)[:500]


def carry(error: LakewardError) -> None:
    """On an executor: put an error of Lakeward into its traceback, for work whose results are not outcomes."""
    error.add_note(f"{_CARRIED}{base64.b64encode(pickle.dumps(error)).decode()}")


def carried(error: Exception) -> LakewardError | None:
    """On the driver: the error that an executor put there."""
    found = re.search(rf"^\s*{_CARRIED}(\S+)\s*$", str(error), re.MULTILINE)
    if found is None:
        return None
    # From our own function in our own executors, as every result.
    return cast(LakewardError, pickle.loads(base64.b64decode(found.group(1))))
