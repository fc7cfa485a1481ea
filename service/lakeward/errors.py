"""The one tree of errors: what went wrong, why, and what to do about it.

Every error that reaches an operator is three sentences (what, why, remedy) with a stable code
and the exit code of the command-line contract. A broken assumption is an `assert`, not one of these.

Touches: nothing.
Keeps:   codes and exit codes never change their meaning once released.
"""

from __future__ import annotations

from typing import ClassVar


class LakewardError(Exception):
    """The work could not be done."""

    code: ClassVar[str] = "LW-FAILED"
    exit_code: ClassVar[int] = 1

    def __init__(self, what: str = "", *, why: str = "", remedy: str = "") -> None:
        self.what = what or (type(self).__doc__ or "").strip()
        self.why = why
        self.remedy = remedy
        super().__init__(what, why, remedy)

    def __str__(self) -> str:
        return " ".join(part for part in (self.what, self.why, self.remedy) if part)

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross process borders (Spark executors); keyword arguments do not survive the default.
        return (_rebuild, (type(self), self.what, self.why, self.remedy))


def _rebuild(kind: type[LakewardError], what: str, why: str, remedy: str) -> LakewardError:
    return kind(what, why=why, remedy=remedy)


class UsageError(LakewardError):
    """The command was called in a way that cannot be carried out."""

    code = "LW-USAGE"
    exit_code = 2


class Refused(LakewardError):
    """The table is not one that this release may change."""

    code = "LW-REFUSED"
    exit_code = 2


class NotATable(UsageError):
    """The path holds no Hudi table."""

    code = "LW-NO-TABLE"


class BrokenFile(LakewardError):
    """A file of the table cannot be read as what its name says."""

    code = "LW-BROKEN-FILE"


class UntrustedName(BrokenFile):
    """A name found in the table's metadata points outside the table or does not fit the grammar."""

    code = "LW-UNTRUSTED-NAME"


class Unsupported(LakewardError):
    """The data holds something that this release does not merge."""

    code = "LW-UNSUPPORTED"
    exit_code = 2


class LockHeld(LakewardError):
    """Somebody else holds the table lock."""

    code = "LW-LOCK-HELD"
    exit_code = 5


class LockLost(LakewardError):
    """The table lock is no longer ours."""

    code = "LW-LOCK-LOST"
    exit_code = 75


class TryLater(LakewardError):
    """Somebody else is at work on the same plan."""

    code = "LW-TRY-LATER"
    exit_code = 75


class AttemptLost(LakewardError):
    """Another process took this attempt over."""

    code = "LW-ATTEMPT-LOST"
    exit_code = 75


class Conflict(LakewardError):
    """The table changed in a way that makes our plan wrong."""

    code = "LW-CONFLICT"


class OutcomeUnknown(LakewardError):
    """A write was sent and nobody could say whether it arrived."""

    code = "LW-OUTCOME-UNKNOWN"
    exit_code = 75


class VerificationFailed(LakewardError):
    """The result of a merge is not what its inputs say it must be."""

    code = "LW-VERIFICATION"
    exit_code = 6


class AlreadyExists(LakewardError):
    """A file that must be created once is already there."""

    code = "LW-EXISTS"


class NotFound(LakewardError):
    """A file that must be there is not."""

    code = "LW-NOT-FOUND"
