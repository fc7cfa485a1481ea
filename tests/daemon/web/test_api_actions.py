"""What operators ask for by the API is what the command line asks for.

Keeps 1, 2 of daemon/web/api_actions; Keeps of surface/actions; Keeps 3 of state/controls.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from lakeward.cli.main import run
from lakeward.daemon.web.access import AccessRules
from lakeward.state.store import Store
from lakeward.surface.documents import API
from tests.clocks import SettableClock
from tests.daemon.synthetic_status import NOW
from tests.daemon.web.api_example import STATUS, app_of, example_store

TOKEN = "t0ken"
WHY = {"reason": "backfill"}


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/lakeward.db"


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with example_store(url) as store:
        yield store


@pytest.fixture
def client(store: Store) -> TestClient:
    app = app_of(STATUS, store, AccessRules(token=TOKEN))
    return TestClient(app, base_url="http://127.0.0.1:8490", headers={"Authorization": f"Bearer {TOKEN}"})


def post(client: TestClient, path: str, body: dict[str, Any], key: str = "k1") -> dict[str, Any]:
    answer = client.post(API + path, json=body, headers={"Idempotency-Key": key})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def in_force(store: Store) -> list[tuple[str, str, str]]:
    return [(each.kind.value, each.target_kind.value, each.target) for each in store.controls.in_force(NOW)]


def test_each_action_is_a_control_in_the_store(client: TestClient, store: Store):
    """A name with slashes, a file group, a group of tables and a job can be meant."""
    group = {"file_group": ["dt=1", "f1"]}
    post(client, "/tables/s3%3A%2F%2Flake%2Fwith%2Fslashes/pause", WHY, "1")
    post(client, "/tables/orders/pause", {**WHY, **group}, "2")
    post(client, "/groups/default/pause", WHY, "3")
    post(client, "/jobs/j2/cancel", WHY, "4")
    post(client, "/tables/orders/cancel", WHY, "5")
    assert in_force(store) == [
        ("pause", "table", "s3://lake/with/slashes"),
        ("pause", "file_group", "orders"),
        ("pause", "group", "default"),
        ("cancel", "job", "j2"),
        ("cancel", "table", "orders"),
    ]
    post(client, "/tables/orders/resume", group, "6")
    post(client, "/groups/default/resume", {}, "7")
    assert [kind for kind, _, _ in in_force(store)] == ["pause", "cancel", "cancel", "resume", "resume"]


def test_an_answer_is_the_document_of_the_command_line(client: TestClient, url: str, capfd: pytest.CaptureFixture[str]):
    """Who asks and from where is in it; what lasts has an end."""
    control = post(client, "/tables/orders/pause", {**WHY, "seconds": 60, "by": "ada"})
    assert (control["by"], control["until"]) == ("ada, from testclient", NOW + 60)
    assert run(["pause", "orders", "--reason", "backfill", "--for", "1m", "--url", url, "--json"]) == 0
    assert json.loads(capfd.readouterr().out).keys() == control.keys()


def test_a_request_that_comes_again_is_answered_again(client: TestClient, store: Store):
    """Its answer may have been lost: nothing is done twice, even if another operator has resumed the table since. With
    another body the key is refused."""
    first = post(client, "/tables/orders/pause", {**WHY, "seconds": 600})
    post(client, "/tables/orders/resume", {}, "k2")
    again = post(client, "/tables/orders/pause", {**WHY, "seconds": 600})
    assert again["id"] == first["id"]
    assert [kind for kind, _, _ in in_force(store)] == ["resume"]

    other = client.post(f"{API}/tables/orders/pause", json=WHY, headers={"Idempotency-Key": "k1"})
    assert (other.status_code, other.json()["code"]) == (422, "LW-USAGE")
    post(client, "/jobs/j2/cancel", WHY, "k3")
    store.jobs.end("j2", "cancelled", None, at=NOW, figures={})
    post(client, "/jobs/j2/cancel", WHY, "k3")


def test_a_key_is_known_for_a_day(store: Store):
    """After that the same words are a new request."""
    clock = SettableClock(NOW)
    client = TestClient(app_of(STATUS, store, clock=clock), base_url="http://127.0.0.1:8490")
    first = post(client, "/tables/orders/pause", WHY)
    clock.sleep(86_000)
    store.trim(clock.now())
    assert post(client, "/tables/orders/pause", WHY)["id"] == first["id"]
    clock.sleep(1_000)
    store.trim(clock.now())
    assert post(client, "/tables/orders/pause", WHY)["id"] != first["id"]


@pytest.mark.parametrize(
    ("path", "body", "headers", "code"),
    [
        ("/tables/orders/pause", WHY, {}, 400),
        ("/tables/orders/pause", WHY, {"Idempotency-Key": "x" * 201}, 400),
        ("/tables/orders/pause", {}, {"Idempotency-Key": "k"}, 400),
        ("/tables/orders/pause", {**WHY, "seconds": -1}, {"Idempotency-Key": "k"}, 400),
        ("/tables/no-such/pause", WHY, {"Idempotency-Key": "k"}, 404),
        ("/groups/no-such/pause", WHY, {"Idempotency-Key": "k"}, 404),
        ("/jobs/no-such/cancel", WHY, {"Idempotency-Key": "k"}, 404),
        ("/jobs/j1/cancel", WHY, {"Idempotency-Key": "k"}, 404),
    ],
)
def test_what_cannot_be_asked_for_is_refused(
    client: TestClient, store: Store, path: str, body: dict[str, Any], headers: dict[str, str], code: int
):
    """No key, a wrong body, or what is not there: each is a problem, and nothing is in the store."""
    answer = client.post(API + path, json=body, headers=headers)
    assert (answer.status_code, answer.json()["status"]) == (code, code)
    assert in_force(store) == []


def test_who_may_act(store: Store):
    """A bearer of the token may. A browser sends a password by itself, also for a stranger's page; and without a token
    nothing says who asks."""
    headers = {"Idempotency-Key": "k"}
    for rules, authorization, code in (
        (AccessRules(token=TOKEN), None, 401),
        (AccessRules(token=TOKEN), "Bearer other", 401),
        (AccessRules(token=TOKEN), "Basic OnQwa2Vu", 403),
        (AccessRules(), None, 403),
        (AccessRules(), "Bearer anything", 403),
        (AccessRules(token=TOKEN), f"Bearer {TOKEN}", 200),
    ):
        client = TestClient(app_of(STATUS, store, rules), base_url="http://127.0.0.1:8490")
        given = headers if authorization is None else {**headers, "Authorization": authorization}
        assert client.post(f"{API}/tables/orders/pause", json=WHY, headers=given).status_code == code, authorization
        assert bool(in_force(store)) == (code == 200)
