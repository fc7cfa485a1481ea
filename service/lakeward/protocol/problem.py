"""From an error to what the scheduler makes of it: retry, exclude, count as a failure, or none of these.

Touches: nothing.
Keeps:   an error that was not foreseen is a failure like others: the table backs off, it does not vanish.
"""

from __future__ import annotations

from lakeward.base.errors import (
    AttemptLost,
    Cancelled,
    EngineFailure,
    LakewardError,
    LeaseLost,
    LockHeld,
    LockLost,
    LockServiceAway,
    NotFound,
    OutcomeUnknown,
    Refused,
    StoreUnavailable,
    TryLater,
    Unsupported,
    UsageError,
    VerificationFailed,
    storage_failure,
)
from lakeward.base.printable import printable
from lakeward.protocol.job_report import ProblemKind, WorkProblem

_KINDS: tuple[tuple[ProblemKind, tuple[type[Exception], ...]], ...] = (
    (ProblemKind.CANCELLED, (Cancelled,)),
    (ProblemKind.LOST, (LeaseLost, AttemptLost, LockLost)),
    (ProblemKind.VERIFICATION, (VerificationFailed,)),
    (ProblemKind.REFUSED, (Refused, Unsupported, UsageError)),
    # NotFound: a file went away while we scanned, taken by an archiver, a cleaner or a rollback.
    (
        ProblemKind.TEMPORARY,
        (LockHeld, LockServiceAway, TryLater, OutcomeUnknown, StoreUnavailable, EngineFailure, NotFound, OSError),
    ),
)


def problem_of(error: Exception) -> WorkProblem:
    """What `error` means for the table on which it happened."""
    kind = next((kind for kind, errors in _KINDS if isinstance(error, errors)), ProblemKind.FAILED)
    file_group = error.file_group if isinstance(error, LakewardError) else None
    return WorkProblem(kind, _sentence(error), file_group)


def problems_of(error: Exception) -> tuple[WorkProblem, ...]:
    """The same, and of each file group that failed beside the first."""
    beside = error.beside if isinstance(error, LakewardError) else ()
    return (problem_of(error), *(problem_of(other) for other in beside))


def is_foreseen(error: Exception) -> bool:
    """False for a bug in Lakeward, whose traceback a developer should see."""
    return isinstance(error, (LakewardError, OSError))


def _sentence(error: Exception) -> str:
    """Kept in the store and shown on the page, so without what secrets the text of others may hold."""
    if isinstance(error, LakewardError):
        return printable(str(error))
    if isinstance(error, OSError):
        failure = storage_failure(error)
        return printable(f"{failure.what} {failure.why}")
    return printable(f"{type(error).__name__}: {error}")
