"""A daemon is asked from Python, over a real connection.

Keeps 1, 2 of api/client.
"""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator

import pytest

import lakeward
from lakeward.api import client as client_module
from lakeward.base.errors import LakewardError, StoreUnavailable, UsageError
from lakeward.daemon.web.access import AccessRules
from lakeward.daemon.web.http import HttpServer
from lakeward.state.store import Store
from tests.daemon.web.api_example import STATUS, app_of, example_store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with example_store(f"sqlite:///{tmp_path_factory.mktemp('store') / 'lakeward.db'}") as store:
        yield store


@pytest.fixture(scope="module")
def address(store: Store) -> Iterator[str]:
    server = HttpServer(app_of(STATUS, store, AccessRules(token="t0ken")), "127.0.0.1:0")
    server.start()
    yield server.address
    server.stop()


@pytest.fixture
def client(address: str) -> lakeward.Client:
    return lakeward.Client(address, token="t0ken")


def test_each_path_is_a_call(client: lakeward.Client) -> None:
    assert client.service().tables == len(STATUS.tables)
    assert client.table("s3://lake/with/slashes").base_path == "s3://lake/with/slashes"
    assert {each.decision.choice for each in client.groups("orders", choice="FULL") if each.decision} == {"FULL"}
    assert [each.choice for each in client.decisions("orders")] == ["FULL"]
    assert client.storage("orders")[0].bytes
    assert client.examination("orders").diagnosis
    assert [each.id for each in client.jobs("orders")] == ["j2", "j1"]
    job = client.job("j1")
    assert job.card is not None and job.card["cpu_seconds"] == 14.0
    assert [each.table for each in client.costs()] == ["orders"]
    newest = client.events(limit=2)
    assert [each.text for each in newest] == ["commit 2", "commit 1"]
    assert [each.text for each in client.events(before=newest[-1].id)] == ["commit 0"]


def test_each_action_is_a_call(client: lakeward.Client, store: Store) -> None:
    """A key that is given again asks for nothing new; without one each call is a request."""
    pause = client.pause("orders", "backfill", seconds=60, file_group=("p", "f"), by="ada", key="k")
    assert client.pause("orders", "backfill", seconds=60, file_group=("p", "f"), by="ada", key="k").id == pause.id
    assert (pause.kind, pause.file_group) == ("pause", ("p", "f"))
    assert client.resume("orders", file_group=("p", "f")).kind == "resume"
    assert client.pause_group("default", "upgrade").id != client.pause_group("default", "upgrade").id
    assert client.resume_group("default", "done").reason == "done"
    assert client.cancel("orders", "busy").target == "orders"
    assert client.cancel_job("j2", "busy").target_kind == "job"
    with pytest.raises(UsageError, match="another request"):
        client.resume("orders", key="k")
    with pytest.raises(UsageError, match="no group"):
        client.pause_group("no-such", "upgrade")


def test_a_list_comes_whole(client: lakeward.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the number of parts it is asked for in; each filter is given on."""
    every = [each.name for each in client.tables(sort="name")]
    assert every == sorted(each.name for each in STATUS.tables)
    for part in (1, 3, len(every)):
        monkeypatch.setattr(client_module, "PART", part)
        assert [each.name for each in client.tables(sort="name")] == every
    assert [each.state for each in client.tables(state=["parked"])] == ["parked"]
    assert all(each.concerns for each in client.tables(concerned=True))
    assert not any(each.concerns for each in client.tables(concerned=False))
    assert [each.name for each in client.tables(search="with/s")] == ["s3://lake/with/slashes"]


def test_what_is_refused_says_why(
    client: lakeward.Client, address: str, monkeypatch: pytest.MonkeyPatch, store: Store
) -> None:
    with pytest.raises(UsageError, match="No table is watched under the name none"):
        client.table("none")
    with pytest.raises(UsageError, match="There is no job none") as refused:
        client.job("none")
    assert refused.value.remedy
    with pytest.raises(UsageError, match="sort: "):
        list(client.tables(sort="sideways"))
    with pytest.raises(LakewardError, match="A token is needed"):
        lakeward.Client(address).service()

    def raises(*arguments: object, **named: object) -> None:
        raise StoreUnavailable("The store does not answer.")

    monkeypatch.setattr(type(store.jobs), "latest", raises)
    with pytest.raises(StoreUnavailable, match="The store does not answer"):
        client.jobs()


class Stranger(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if "service" in self.path else 403)
        self.end_headers()
        self.wfile.write(b"<html>hello</html>")

    def log_message(self, *arguments: object) -> None: ...


def test_what_is_no_daemon() -> None:
    """A server of something else, and none at all, are named with their address."""
    with http.server.HTTPServer(("127.0.0.1", 0), Stranger) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        stranger = lakeward.Client(url)
        with pytest.raises(LakewardError, match=f"No daemon answers at {url}"):
            stranger.service()
        with pytest.raises(LakewardError, match="does not answer as a daemon of Lakeward"):
            stranger.jobs()
        server.shutdown()
    with pytest.raises(LakewardError, match=f"No daemon answers at {url}"):
        stranger.service()
