"""Every error of Lakeward and of others, and what the scheduler makes of it."""

from __future__ import annotations

import errno
import inspect
import os

import pytest

from lakeward.base import errors
from lakeward.protocol.job_report import ProblemKind
from lakeward.protocol.problem import is_foreseen, problem_of, problems_of


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (errors.Cancelled("x"), ProblemKind.CANCELLED),
        (errors.LeaseLost("x"), ProblemKind.LOST),
        (errors.AttemptLost("x"), ProblemKind.LOST),
        (errors.LockLost("x"), ProblemKind.LOST),
        (errors.LockHeld("x"), ProblemKind.TEMPORARY),
        (errors.LockServiceAway("x"), ProblemKind.TEMPORARY),
        (errors.TryLater("x"), ProblemKind.TEMPORARY),
        (errors.EngineLost("x"), ProblemKind.TEMPORARY),
        (errors.EngineAway("x"), ProblemKind.TEMPORARY),
        (errors.EngineNotStarted("x"), ProblemKind.TEMPORARY),
        (errors.StoreUnavailable("x"), ProblemKind.TEMPORARY),
        (errors.OutcomeUnknown("x"), ProblemKind.TEMPORARY),
        (FileNotFoundError("x"), ProblemKind.TEMPORARY),
        (TimeoutError("x"), ProblemKind.TEMPORARY),
        (errors.Refused("x"), ProblemKind.REFUSED),
        (errors.Unsupported("x"), ProblemKind.REFUSED),
        (errors.VerificationFailed("x"), ProblemKind.VERIFICATION),
        (errors.BrokenFile("x"), ProblemKind.FAILED),
        (ZeroDivisionError("x"), ProblemKind.FAILED),
        (MemoryError(), ProblemKind.FAILED),
    ],
)
def test_what_an_error_means(error: Exception, kind: ProblemKind) -> None:
    """Keeps of protocol/problem. Only what may pass by itself is tried again for ever without blame."""
    assert problem_of(error).kind is kind


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (errno.EROFS, "The storage is read-only: /lake/t. Read-only file system."),
        (errno.EACCES, "This process is not allowed to do this at /lake/t. Permission denied."),
        (errno.EIO, "The storage failed at /lake/t. Input/output error."),
    ],
)
def test_storage_is_called_what_commands_call_it(number: int, text: str) -> None:
    assert problem_of(OSError(number, os.strerror(number), "/lake/t")).text == text


def test_every_error_of_lakeward_is_a_sentence() -> None:
    """Whatever is added to the tree has a kind and a text, and is told apart from a bug."""
    for _, kind in inspect.getmembers(errors, inspect.isclass):
        if issubclass(kind, errors.LakewardError) and "__init__" not in vars(kind):
            problem = problem_of(kind("Something happened."))
            assert "Something happened." in problem.text and is_foreseen(kind("x"))


def test_a_bug_of_lakeward_names_itself() -> None:
    """Its type stands in the reason, because its message alone may be a single word."""
    assert problem_of(KeyError("orders")).text == "KeyError: 'orders'"
    assert not is_foreseen(KeyError("orders"))
    assert is_foreseen(OSError("disk"))


def test_a_file_group_that_an_error_names_is_blamed() -> None:
    """It is parked alone."""
    error = errors.VerificationFailed("x")
    error.file_group = ("p=1", "fg1")
    assert problem_of(error).file_group == ("p=1", "fg1")


def test_each_file_group_that_failed_is_blamed() -> None:
    """Groups that failed beside the first are blamed, too."""
    error, other = errors.BrokenFile("x", file_group=("p=1", "fg1")), errors.Unsupported("y", file_group=("p=1", "fg2"))
    error.beside = (other,)
    assert [problem.file_group for problem in problems_of(error)] == [("p=1", "fg1"), ("p=1", "fg2")]
    assert problems_of(OSError("disk")) == (problem_of(OSError("disk")),)
