"""The API says what pages and commands say, of the same values.

Keeps 1, 2 of daemon/web/api.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
from starlette.testclient import TestClient

from lakeward.base.errors import StoreUnavailable
from lakeward.cli.main import run
from lakeward.daemon.scheduling.table_state import TableState
from lakeward.daemon.web.access import AccessRules
from lakeward.daemon.web.api import PROBLEM
from lakeward.daemon.web.http import SECURITY_HEADERS
from lakeward.daemon.web.table_list import concerns, in_order, kinds_of
from lakeward.state.store import Store
from lakeward.surface.documents import API
from tests.daemon.synthetic_status import NOW, detail, examination
from tests.daemon.web.api_example import STATUS, client_of, example_store


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('store') / 'lakeward.db'}"


@pytest.fixture(scope="module")
def store(url: str) -> Iterator[Store]:
    with example_store(url) as store:
        yield store


@pytest.fixture
def client(store: Store) -> TestClient:
    return client_of(STATUS, store)


def get(client: TestClient, path: str) -> object:
    answer = client.get(API + path)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    return answer.json()


def names(client: TestClient, query: str) -> list[str]:
    found = get(client, f"/tables?limit=1000{query}")
    assert isinstance(found, dict)
    assert found["total"] == len(found["items"])
    return [each["name"] for each in found["items"]]


def test_tables_are_found(client: TestClient) -> None:
    """Tables are found by a part of the name or path, by state and by whether they need attention, in each order."""
    every = names(client, "")
    assert every == [each.name for each in in_order(STATUS.tables, STATUS.at, kinds_of(STATUS.tables, STATUS.at))]
    assert names(client, "&search=SLASHES") == ["s3://lake/with/slashes"]
    parked = [each.name for each in STATUS.tables if each.state is TableState.PARKED]
    assert parked
    assert sorted(names(client, "&state=parked")) == sorted(parked)
    both = names(client, "&state=parked&state=refused")
    assert len(both) > len(parked)
    concerned = {each.name for each in STATUS.tables if concerns(each, STATUS.at)}
    assert set(names(client, "&concerned=true")) == concerned
    assert set(names(client, "&concerned=false")) == set(every) - concerned
    assert names(client, "&sort=name") == sorted(every)
    assert names(client, "&group=none") == []
    oldest = {each.name: each.oldest_unmerged_age(STATUS.at) or 0.0 for each in STATUS.tables}
    assert [oldest[name] for name in names(client, "&sort=oldest")] == sorted(oldest.values(), reverse=True)
    part = get(client, "/tables?limit=2&offset=1")
    assert isinstance(part, dict)
    assert ([each["name"] for each in part["items"]], part["total"], part["offset"]) == (every[1:3], len(every), 1)


def test_a_name_with_slashes(client: TestClient) -> None:
    found = get(client, "/tables/s3:%2F%2Flake%2Fwith%2Fslashes")
    assert isinstance(found, dict)
    assert found["base_path"] == "s3://lake/with/slashes"
    assert client.get(f"{API}/tables/s3://lake/with/slashes").status_code == 404


def test_a_table_says_what_its_page_says(client: TestClient) -> None:
    page = detail(STATUS.tables[0])
    found = get(client, f"/tables/{page.table.name}")
    assert isinstance(found, dict)
    assert found["concerns"] == list(concerns(page.table, page.at))
    assert [each["instant"] for each in found["plans"]] == [plan.instant for plan in page.plans]
    assert [each["reason"] for each in found["holds"]] == [hold.reason for hold in page.holds]
    groups = get(client, f"/tables/{page.table.name}/groups?limit=1000&sort=group")
    assert isinstance(groups, dict)
    assert [each["file_id"] for each in groups["items"]] == [
        group.file_id for group in sorted(page.groups, key=lambda group: (group.partition_path, group.file_id))
    ]
    full = get(client, f"/tables/{page.table.name}/groups?choice=FULL")
    assert isinstance(full, dict)
    assert 0 < full["total"] < groups["total"]
    assert {each["decision"]["choice"] for each in full["items"]} == {"FULL"}
    assert all(each["decision"]["sentence"].startswith("FULL") for each in full["items"])


def test_decisions_of_an_earlier_time(client: TestClient) -> None:
    newest = get(client, "/tables/orders/decisions")
    earlier = get(client, f"/tables/orders/decisions?at={NOW - 30.0}")
    assert isinstance(newest, dict) and isinstance(earlier, dict)
    assert [each["choice"] for each in newest["items"]] == ["FULL"]
    assert [each["choice"] for each in earlier["items"]] == ["NONE"]


@pytest.mark.parametrize(
    ("path", "verb"),
    [
        ("/jobs?limit=20", ["jobs"]),
        ("/jobs?limit=20&table=orders", ["jobs", "orders"]),
        ("/jobs/j1", ["job", "j1"]),
        ("/events", ["events"]),
        ("/costs", ["costs"]),
    ],
)
def test_the_command_line_says_the_same(
    client: TestClient, url: str, path: str, verb: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    """Field by field, but for what depends on the clock of each."""
    capfd.readouterr()
    assert run([*verb, "--url", url, "--json"]) == 0
    printed = json.loads(capfd.readouterr().out)
    answered = get(client, path)
    assert answered
    assert answered == printed


def test_events_go_back(client: TestClient) -> None:
    newest = get(client, "/events?limit=2")
    assert isinstance(newest, list)
    assert [each["text"] for each in newest] == ["commit 2", "commit 1"]
    older = get(client, f"/events?before={newest[-1]['id']}")
    assert isinstance(older, list)
    assert [each["text"] for each in older] == ["commit 0"]


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        ("/tables/none", 404, "No table is watched under the name none."),
        ("/tables/none/groups", 404, "No table is watched under the name none."),
        ("/jobs?table=none", 404, "No table is watched under the name none."),
        ("/jobs/none", 404, "There is no job none."),
        ("/nothing", 404, "Not Found"),
        ("/tables?limit=0", 400, "limit: "),
        ("/tables?sort=sideways", 400, "sort: "),
        ("/tables/orders/groups?choice=MAYBE", 400, "choice: "),
    ],
)
def test_an_error_is_a_problem(client: TestClient, path: str, status: int, says: str) -> None:
    """It has the code of the command line, says what, why and what to do, and has the headers of all answers."""
    answer = client.get(API + path)
    found = answer.json()
    assert (answer.status_code, answer.headers["content-type"]) == (status, PROBLEM)
    assert set(found) == {"type", "code", "title", "status", "detail", "remedy"}
    assert (found["status"], found["type"]) == (status, f"urn:lakeward:error:{found['code']}")
    assert says in f"{found['title']} {found['detail']}"
    assert found["remedy"]
    assert {name: answer.headers[name] for name in SECURITY_HEADERS} == dict(SECURITY_HEADERS)


def test_a_store_that_is_away(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """503, so that a program tries again; what was not foreseen is 500, and shows no traceback."""
    client = client_of(STATUS, store)
    away = StoreUnavailable("The store does not answer.", remedy="Bring it back.")
    for error, status, title in (
        (away, 503, "The store does not answer."),
        (ValueError("secret"), 500, "The answer could not be made."),
    ):

        def raises(*arguments: object, error: Exception = error, **named: object) -> None:
            raise error

        monkeypatch.setattr(type(store.jobs), "latest", raises)
        answer = client.get(f"{API}/jobs")
        assert (answer.status_code, answer.json()["title"]) == (status, title)
        assert "secret" not in answer.text and "Traceback" not in answer.text


def test_who_may_ask(store: Store) -> None:
    """The rules of the pages hold here, and what is refused is a problem that names no table."""
    client = client_of(STATUS, store, AccessRules(token="t0ken"))
    for path in ("/tables", "/tables/orders", "/openapi.json"):
        refused = client.get(API + path)
        assert (refused.status_code, refused.headers["content-type"]) == (401, PROBLEM)
        assert "orders" not in refused.text
        assert refused.headers["x-content-type-options"] == "nosniff"
        assert client.get(API + path, headers={"Authorization": "Bearer t0ken"}).status_code == 200


def test_what_the_doctor_found(store: Store, client: TestClient) -> None:
    """What the page shows; before the first examination all of it is null, and what was not seen does not count as
    well."""
    never = dict.fromkeys(("tried_at", "tried_time", "looked_at", "looked_time", "diagnosis"))
    assert get(client, "/tables/returns/examination") == {**never, "problem": ""}
    seen = examination("danger", problem="It is away.", tried_at=NOW)
    store.observations.record_examination("sessions", seen)
    assert get(client, "/tables/sessions/examination") == {
        "tried_at": NOW,
        "tried_time": "2027-01-15T08:00:00.000Z",
        "looked_at": NOW - 7200,
        "looked_time": "2027-01-15T06:00:00.000Z",
        "problem": "It is away.",
        "diagnosis": seen.document,
    }


def test_each_path_is_described(client: TestClient) -> None:
    """The document names all paths, what they take and what they answer; nothing else is announced."""
    document = get(client, "/openapi.json")
    assert isinstance(document, dict)
    assert client.get("/openapi.json", follow_redirects=True).json() == document
    assert set(document["paths"]) == {
        "/service",
        "/tables",
        "/tables/{table}",
        "/tables/{table}/groups",
        "/tables/{table}/decisions",
        "/tables/{table}/storage",
        "/tables/{table}/examination",
        "/jobs",
        "/jobs/{job}",
        "/costs",
        "/events",
        "/events/stream",
        *(f"/tables/{{table}}/{action}" for action in ("pause", "resume", "cancel")),
        *(f"/groups/{{group}}/{action}" for action in ("pause", "resume")),
        "/jobs/{job}/cancel",
    }
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert operation["summary"], path
            refusals = {"403", "422"} if method == "post" else set()
            assert set(operation["responses"]) - {"304"} == {"200", "400", "404", "503"} | refusals, path
            if path == "/events/stream":
                assert set(operation["responses"]["200"]["content"]) == {"text/event-stream"}
            else:
                assert operation["responses"]["200"]["content"]["application/json"]["schema"], path
            assert all(each["description"] for each in operation.get("parameters", ()) if each["name"] != "sort"), path
    assert document["servers"] == [{"url": API}]
    assert document["components"]["schemas"]["TableDocument"]["properties"]["concerns"]["description"]


def test_the_document_holds_what_is_answered(client: TestClient) -> None:
    """Each answer has the fields that the document says, and no others."""
    document = get(client, "/openapi.json")
    assert isinstance(document, dict)
    schemas = document["components"]["schemas"]
    for path, name in (("/service", "ServiceDocument"), ("/tables/orders", "WholeTableDocument")):
        found = get(client, path)
        assert isinstance(found, dict)
        assert set(found) == set(schemas[name]["properties"])


def test_the_daemon_says_how_it_is(store: Store) -> None:
    refused = replace(STATUS, config=replace(STATUS.config, problem="no"))
    found = get(client_of(refused, store), "/service")
    assert isinstance(found, dict)
    assert (found["configuration_problem"], found["tables"]) == ("no", len(STATUS.tables))
    assert found["concerned"] == sum(bool(concerns(each, STATUS.at)) for each in STATUS.tables)
