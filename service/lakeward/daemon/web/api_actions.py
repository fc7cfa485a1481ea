"""What programs may ask the daemons for, by the API: the same as `lakeward pause`, `resume` and `cancel`.

    POST  token as `Bearer`  Idempotency-Key  {"reason": …}  -->  a control in the store  -->  the daemon of the table

Touches: the store.
Keeps:   1. nothing is asked for without a token, nor with one that a browser sends by itself;
         2. a request that comes again with its key is answered as before, and nothing is done twice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Annotated
from urllib.parse import unquote

from fastapi import FastAPI, Header, Path, Request
from pydantic import Field
from starlette.exceptions import HTTPException

from lakeward.base.errors import UsageError
from lakeward.daemon.web.access import AccessRules
from lakeward.surface.actions import KEY_LENGTH_MAX, Actions, ActionTarget, Asker
from lakeward.surface.documents import ControlDocument, Document, ProblemDocument

TableName = Annotated[str, Path(description="Its name or short name, `/` as `%2F`.")]
JobName = Annotated[str, Path(description="Its id.")]
GroupName = Annotated[str, Path(description="The name of a group of tables.")]
RequestKey = Annotated[
    str,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=KEY_LENGTH_MAX,
        description="Any text that is new for each request. The same one again within a day gets the same answer, and "
        "nothing is done twice; with another body it is refused.",
    ),
]


class ActionRequest(Document):
    reason: str = ""
    """Why; shown with it."""
    by: str = ""
    """Who asks, as events and pages name it; the address is noted beside."""


class OfFileGroup(ActionRequest):
    file_group: tuple[str, str] | None = None
    """Partition path and file id; not given: the whole table."""


class ResumeRequest(OfFileGroup):
    """An end of a pause."""


class GroupResumeRequest(ActionRequest):
    """An end of the pause of a group of tables."""


class GroupPauseRequest(ActionRequest):
    """A pause of a group of tables."""

    reason: str
    """Why; shown with it."""
    seconds: Annotated[float | None, Field(gt=0)] = None
    """How long; not given: until it is resumed."""


class PauseRequest(OfFileGroup):
    """A pause of a table, or of a file group."""

    reason: str
    """Why; shown with it."""
    seconds: Annotated[float | None, Field(gt=0)] = None
    """How long; not given: until it is resumed."""


class CancelRequest(ActionRequest):
    """A cancellation of what runs."""

    reason: str
    """Why; shown with it."""


def add_actions(
    api: FastAPI,
    actions: Actions,
    *,
    access: AccessRules | None,
    table_named: Callable[[str], str],
    groups: Callable[[], Collection[str]],
) -> None:
    """
    Args:
        access: who may act; None: everybody.
        table_named: the name of a table from its name in a path. Raises `UsageError`.
        groups: the groups of tables.
    """

    def asked(request: Request, body: ActionRequest, key: str) -> Asker:
        """Who asks. Raises `HTTPException` for one that may not."""
        why = None if access is None else access.refusal_to_act(request.headers)
        if why is not None:
            raise HTTPException(403, why)
        who = body.by or "the API"
        return Asker(who if request.client is None else f"{who}, from {request.client.host}", body.reason, key)

    def group_of(group: str) -> ActionTarget:
        name, known = unquote(group, errors="surrogateescape"), groups()
        if name not in known:
            raise UsageError(f"There is no group {name}.", remedy=f"The groups are {', '.join(sorted(known))}.")
        return ActionTarget.of_group(name)

    def target_of(table: str, body: OfFileGroup) -> ActionTarget:
        return ActionTarget.of_table(table_named(table), body.file_group)

    post = partial(
        api.post,
        response_model_exclude_unset=True,
        responses={403: {"model": ProblemDocument}, 422: {"model": ProblemDocument}},
        tags=["actions"],
    )

    @post("/tables/{table}/pause", summary="Have nothing new begin for a table, or one of its file groups")
    def pause(table: TableName, body: PauseRequest, key: RequestKey, request: Request) -> ControlDocument:
        by = asked(request, body, key)
        return actions.pause(target_of(table, body), by, seconds=body.seconds)

    @post("/tables/{table}/resume", summary="End a pause, and release what is parked")
    def resume(table: TableName, body: ResumeRequest, key: RequestKey, request: Request) -> ControlDocument:
        by = asked(request, body, key)
        return actions.resume(target_of(table, body), by)

    @post("/tables/{table}/cancel", summary="Stop the jobs of a table that run")
    def cancel(table: TableName, body: CancelRequest, key: RequestKey, request: Request) -> ControlDocument:
        by = asked(request, body, key)
        return actions.cancel(ActionTarget.of_table(table_named(table)), by)

    @post("/groups/{group}/pause", summary="Have nothing new begin for the tables of a group")
    def pause_group(group: GroupName, body: GroupPauseRequest, key: RequestKey, request: Request) -> ControlDocument:
        by = asked(request, body, key)
        return actions.pause(group_of(group), by, seconds=body.seconds)

    @post("/groups/{group}/resume", summary="End the pause of a group")
    def resume_group(group: GroupName, body: GroupResumeRequest, key: RequestKey, request: Request) -> ControlDocument:
        by = asked(request, body, key)
        return actions.resume(group_of(group), by)

    @post("/jobs/{job}/cancel", summary="Stop a job")
    def cancel_job(job: JobName, body: CancelRequest, key: RequestKey, request: Request) -> ControlDocument:
        by = asked(request, body, key)
        return actions.cancel(ActionTarget.of_job(unquote(job)), by)
