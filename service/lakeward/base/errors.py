"""The one tree of errors: what went wrong, why, and what to do about it.

Every error that reaches an operator is three sentences (what, why, remedy) with a stable code
and the exit code of the command-line contract. A broken assumption is an `assert`, not one of these.

Touches: nothing.
Keeps:   codes and exit codes never change their meaning once released.
"""

from __future__ import annotations

import errno
from typing import ClassVar


class LakewardError(Exception):
    """The work could not be done."""

    code: ClassVar[str] = "LW-FAILED"
    exit_code: ClassVar[int] = 1

    def __init__(
        self, what: str = "", *, why: str = "", remedy: str = "", file_group: tuple[str, str] | None = None
    ) -> None:
        """
        Args:
            file_group: (partition path, file id) of the one that the error is about; the next plan may leave it
                alone and let the others go on.
        """
        self.what = what or (type(self).__doc__ or "").strip()
        self.why = why
        self.remedy = remedy
        self.file_group = file_group
        self.beside: tuple[LakewardError, ...] = ()
        """What failed in the same work, of other file groups."""
        super().__init__(what, why, remedy)

    def __str__(self) -> str:
        parts = [part for part in (self.what, self.why, self.remedy) if part]
        return ("\n" if any("\n" in part for part in parts) else " ").join(parts)  # carets are below their place

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross process borders (Spark executors); keyword arguments do not survive the default.
        return (_rebuild, (type(self), self.what, self.why, self.remedy, self.file_group))


def _rebuild(
    kind: type[LakewardError], what: str, why: str, remedy: str, file_group: tuple[str, str] | None
) -> LakewardError:
    return kind(what, why=why, remedy=remedy, file_group=file_group)


class UsageError(LakewardError):
    """The command cannot be carried out as it was called."""

    code = "LW-USAGE"
    exit_code = 2


class ConfigurationError(UsageError):
    """The configuration cannot be used as it is."""

    code = "LW-CONFIG"


class Refused(LakewardError):
    """The table is not one that this release may change."""

    code = "LW-REFUSED"
    exit_code = 2


class DoubledKeys(Refused):
    """A commit put keys into base files that logs of other file groups have."""

    keys = 0
    """How many."""

    def __reduce__(self) -> tuple[object, ...]:
        return (*super().__reduce__(), {"keys": self.keys})


class NotATable(UsageError):
    """The path holds no Hudi table."""

    code = "LW-NO-TABLE"


class NoCredentials(UsageError):
    """There are no credentials for the object store."""

    code = "LW-NO-CREDENTIALS"


class BrokenFile(LakewardError):
    """A file of the table cannot be read as the kind of file that its name says."""

    code = "LW-BROKEN-FILE"


class DamagedFiles(BrokenFile):
    """Files of the table do not match their commits."""

    code = "LW-DAMAGED"


class UntrustedName(BrokenFile):
    """A name found in the table's metadata points outside the table or does not fit the grammar."""

    code = "LW-UNTRUSTED-NAME"


class LinkInTable(BrokenFile):
    """A link stands where a folder or a file of the table should be."""

    code = "LW-LINK"


class Unsupported(LakewardError):
    """The data holds something that this release does not merge."""

    code = "LW-UNSUPPORTED"
    exit_code = 2


class LockHeld(LakewardError):
    """Another process holds the table lock."""

    code = "LW-LOCK-HELD"
    exit_code = 5


class LockLost(LakewardError):
    """This process has lost the table lock."""

    code = "LW-LOCK-LOST"
    exit_code = 75


class LockServiceAway(LakewardError):
    """The lock provider cannot be reached."""

    code = "LW-LOCK-AWAY"
    exit_code = 75


class TryLater(LakewardError):
    """Another process is at work on the same plan."""

    code = "LW-TRY-LATER"
    exit_code = 75


class IndexMoved(TryLater):
    """The index was replaced after it was opened."""

    code = "LW-INDEX-MOVED"


class AttemptLost(LakewardError):
    """Another process took this attempt over."""

    code = "LW-ATTEMPT-LOST"
    exit_code = 75


class LeaseLost(LakewardError):
    """This process may no longer service the table: another one may have taken over."""

    code = "LW-LEASE-LOST"
    exit_code = 75


class Cancelled(LakewardError):
    """The work was asked to stop."""

    code = "LW-CANCELLED"
    exit_code = 130  # as after Ctrl-C: stopped on request, and nothing is wrong


class TaskFailed(LakewardError):
    """A task failed; another try may succeed."""

    code = "LW-TASK-FAILED"

    def __init__(self, what: str = "", *, why: str = "", remedy: str = "", index: int | None = None) -> None:
        """
        Args:
            index: which of the job's specs, where that is known.
        """
        super().__init__(what, why=why, remedy=remedy)
        self.index = index


class SpillFailed(LakewardError):
    """Data that did not fit memory could not be written to a temporary file."""

    code = "LW-SPILL"
    exit_code = 75


class EngineFailure(LakewardError):
    """The engine failed; no table is at fault."""


class EngineLost(EngineFailure):
    """The engine died during the work."""

    code = "LW-ENGINE-LOST"
    exit_code = 75


class EngineAway(EngineFailure):
    """The engine does not answer."""

    code = "LW-ENGINE-AWAY"
    exit_code = 75


class EngineNotStarted(EngineFailure):
    """The engine did not start."""

    code = "LW-ENGINE-START"


class Conflict(LakewardError):
    """The table changed, which makes the plan wrong."""

    code = "LW-CONFLICT"


class OutcomeUnknown(LakewardError):
    """A write was sent, and it is unknown whether it arrived."""

    code = "LW-OUTCOME-UNKNOWN"
    exit_code = 75


class VerificationFailed(LakewardError):
    """The result of a merge does not match its inputs."""

    code = "LW-VERIFICATION"
    exit_code = 6


class AlreadyExists(LakewardError):
    """A file that must be created once is already there."""

    code = "LW-EXISTS"


class VersionChanged(LakewardError):
    """A file that was to be replaced has changed or is gone."""

    code = "LW-CHANGED"


class NotFound(LakewardError):
    """A file that must exist is missing."""

    code = "LW-NOT-FOUND"


class StoreUnavailable(LakewardError):
    """The store could not be reached, or stayed busy."""

    code = "LW-STORE-UNAVAILABLE"
    exit_code = 75


class StoreBroken(LakewardError):
    """The store's file is damaged or is no store."""

    code = "LW-STORE-BROKEN"


class StoreVersion(LakewardError):
    """The store's schema and this release do not fit."""

    code = "LW-STORE-VERSION"
    exit_code = 2


def storage_failure(error: OSError) -> LakewardError:
    """The error for an operator: the storage is read-only, may not be used by this process, or failed."""
    path = error.filename
    if error.errno == errno.EROFS:
        return LakewardError(
            f"The storage is read-only{f': {path}' if path else ''}.",
            why=f"{error.strerror}.",
            remedy="Mount it for writing, or run the command where it is. Nothing half-done stays visible.",
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        return LakewardError(
            f"This process is not allowed to do this{f' at {path}' if path else ' in the storage'}.",
            why=f"{error.strerror}.",
            remedy="A command that changes a table needs to read, write and delete below its folder: run it as a user, "
            "or with credentials, that may. Nothing half-done stays visible.",
        )
    return LakewardError(
        f"The storage failed{f' at {path}' if path else ''}.",
        why=f"{error.strerror or error}.",
        remedy="Nothing half-done stays visible; when the storage works again, run the command again.",
    )
