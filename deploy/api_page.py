"""Write docs/reference/api.md and openapi.json from the code: paths, parameters, and an example of each answer.

    python -m deploy.api_page

Examples are what a daemon says of statuses and a store that were put together for tests.

Touches: those two files, and a store in a temporary folder.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lakeward.surface.documents import API
from tests.daemon.web.api_example import STATUS, client_of, example_store

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
DOCUMENT, DESCRIPTION = FOLDER / "api.md", FOLDER / "openapi.json"

EXAMPLES: Mapping[str, str] = {
    "/service": "/service",
    "/tables": "/tables?concerned=true&limit=1",
    "/tables/{table}": "/tables/orders",
    "/tables/{table}/groups": "/tables/orders/groups?limit=1",
    "/tables/{table}/decisions": "/tables/orders/decisions?at=1799999970",
    "/tables/{table}/storage": "/tables/orders/storage",
    "/tables/{table}/examination": "/tables/orders/examination",
    "/jobs": "/jobs?limit=1",
    "/jobs/{job}": "/jobs/j1",
    "/costs": "/costs?table=orders",
    "/events": "/events?limit=1",
}
"""A request for each path that answers at once."""
ACTIONS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "/tables/{table}/pause": ("/tables/orders/pause", {"reason": "backfill", "seconds": 7200}),
    "/tables/{table}/resume": ("/tables/orders/resume", {"reason": "the backfill is done", "by": "ada"}),
    "/tables/{table}/cancel": ("/tables/orders/cancel", {"reason": "writers need the cluster"}),
    "/groups/{group}/pause": ("/groups/default/pause", {"reason": "the cluster is upgraded"}),
    "/groups/{group}/resume": ("/groups/default/resume", {}),
    "/jobs/{job}/cancel": ("/jobs/j2/cancel", {"reason": "writers need the cluster"}),
}
"""A request for each path that asks for something: path and body."""
STREAM = "/events/stream"
"""Its answer goes on until the client leaves."""
ITEMS_SHOWN = 2

HEAD = f"""\
# The API

<!-- made by `make api-page` from the code and its answers; do not edit -->

What a daemon knows of its tables and does for them, as JSON below `{API}`: the values that its pages, its
metrics and the command line show; and what operators ask for: a pause, a resume, a cancellation.
`{API}/openapi.json` (also `/openapi.json`) describes all of it for programs, with the type and the meaning of
each field; a copy with an example of each answer is [openapi.json](openapi.json). The version is `v1alpha` until the
release after next: fields may change, and CHANGELOG says so.

Who may read pages may read this: with `http.token` set, each request names it (`Authorization: Bearer …`). Names of
tables are those of `/tables`, or the short names of pages; a `/` in one is `%2F`. Times are seconds since the epoch,
and the same in ISO 8601 beside them.

    curl -H "Authorization: Bearer $TOKEN" http://127.0.0.1:8490{API}/tables?concerned=true

An error is a problem document (RFC 9457, `application/problem+json`) with the code of the
[command line](exit-codes.md): 400 for a parameter, 401 without the token, 404 for what is not there, 503 where the
store does not answer and the same request may succeed later.

A `POST` takes the token as `Bearer` alone: without `http.token_file` nothing may be asked for, and what a browser sends
by itself does not count. It needs an `Idempotency-Key`, any text that is new for each request: the same one again
within a day gets the same answer and does nothing twice, so that a request whose answer was lost can be sent again;
with another body it is refused (422). `by` says who asks, as events and pages name it; the address is noted beside.

    curl -X POST -H "Authorization: Bearer $TOKEN" -H "Idempotency-Key: $(uuidgen)" \\
        http://127.0.0.1:8490{API}/tables/orders/pause --json '{{"reason": "backfill", "seconds": 7200}}'

`/events/stream` goes on until the client leaves, as server-sent events: one message for each event, and one named
`status` for tables that look different than before. A client that reconnects names the event that it had last
(`Last-Event-ID`, as browsers do) and gets what came since. 32 may be open; others get 503 with `Retry-After`, and ask
`/events` with `If-None-Match` meanwhile:

    curl -N http://127.0.0.1:8490{API}/events/stream

From Python the same paths are calls, lists come whole, and problems are raised:

    client = lakeward.Client("http://127.0.0.1:8490", token=token)
    for table in client.tables(concerned=True):
        print(table.title, *table.concerns)

"""


def described() -> dict[str, Any]:
    """The document of the API, with an example of each answer. Raises `AssertionError` for a path without one."""
    with tempfile.TemporaryDirectory() as folder, example_store(f"sqlite:///{folder}/lakeward.db") as store:
        client = client_of(STATUS, store)
        document: dict[str, Any] = client.get(f"{API}/openapi.json").json()
        assert set(document["paths"]) == EXAMPLES.keys() | ACTIONS.keys() | {STREAM}, "each path has an example"
        for number, (path, (request, body)) in enumerate(ACTIONS.items()):
            answer = client.post(API + request, json=body, headers={"Idempotency-Key": f"request-{number}"})
            assert answer.status_code == 200, answer.text
            operation = document["paths"][path]["post"]
            operation["requestBody"]["content"]["application/json"]["example"] = body
            operation["responses"]["200"]["content"]["application/json"]["example"] = answer.json()
        (event,) = client.get(f"{API}/events?limit=1").json()
        messages = f'id: {event["id"]}\ndata: {json.dumps(event)}\n\nevent: status\ndata: {{"tables": ["orders"]}}\n\n'
        of_stream = document["paths"][STREAM]["get"]["responses"]["200"]["content"]
        of_stream["text/event-stream"]["example"] = f"{messages}: beat\n\n"
        for path, request in EXAMPLES.items():
            answer = client.get(API + request)
            assert answer.status_code == 200, answer.text
            found = answer.json()
            shown = found[:ITEMS_SHOWN] if isinstance(found, list) else found
            document["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["example"] = shown
    return document


def description(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def page(document: Mapping[str, Any]) -> str:
    lines = ["| GET | answer | parameters |", "|---|---|---|"]
    for path, operation in ((path, each["get"]) for path, each in document["paths"].items() if "get" in each):
        asked = [each["name"] for each in operation.get("parameters", ()) if each["in"] == "query"]
        names = ", ".join(f"`{name}`" for name in asked)
        lines.append(f"| `{path}` | {operation['summary']} | {names} |")
    lines += ["", "| POST | does | body |", "|---|---|---|"]
    for path, (_, body) in ACTIONS.items():
        summary = document["paths"][path]["post"]["summary"]
        lines.append(f"| `{path}` | {summary} | `{json.dumps(body)}` |")
    example = document["paths"]["/tables"]["get"]["responses"]["200"]["content"]["application/json"]["example"]
    shown = json.dumps(example, indent=2, ensure_ascii=False)
    return f"{HEAD}{chr(10).join(lines)}\n\n## An answer\n\n`GET {API}{EXAMPLES['/tables']}`\n\n```json\n{shown}\n```\n"


def main() -> int:
    document = described()
    DESCRIPTION.write_text(description(document))
    DOCUMENT.write_text(page(document))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
