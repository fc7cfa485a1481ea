"""Who may look at pages and metrics."""

from __future__ import annotations

import base64

import pytest
from starlette.testclient import TestClient

from lakeward.daemon.web.access import OPEN_PATHS, AccessRules, Denial, access_to
from lakeward.daemon.web.http import SECURITY_HEADERS
from tests.daemon.web.test_http import PATHS, Daemon, make_app

TOKEN = "0123456789abcdef0123"


def client_of(access: AccessRules, daemon: Daemon | None = None) -> TestClient:
    return TestClient(make_app(daemon or Daemon(), access), base_url="http://127.0.0.1:8490")


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8490", 200),
        ("localhost:8490", 200),
        ("LOCALHOST", 200),
        ("[::1]:8490", 200),
        ("10.1.2.3:80", 200),
        ("lakeward.internal:8490", 200),
        ("Lakeward.Internal.", 200),
        ("evil.example:8490", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost.evil.example", 421),
        ("lakeward", 421),
        ("", 421),
        ("[evil]", 421),
    ],
)
def test_a_name_of_strangers_leads_to_nothing(host: str, status: int) -> None:
    """A page whose name was made to lead here is another origin than any that the configuration knows."""
    client = client_of(access_to("127.0.0.1:8490", hosts=("Lakeward.internal",), token=None))
    for path in ("/", "/metrics", "/tables/orders"):
        answer = client.get(path, headers={"Host": host})
        assert answer.status_code == status, host
        assert status == 200 or "orders" not in answer.text
    assert client.post("/-/reload", headers={"Host": host}).status_code == status
    assert client.get("/-/healthy", headers={"Host": host}).status_code == 200


def test_what_listens_on_a_name_is_known_under_it() -> None:
    """The name in `listen` is Lakeward's; an operator does not have to list it once more."""
    assert access_to("box.internal:8490", hosts=(), token=None).refusal("/", {"host": "box.internal:1"}) is None
    assert access_to("0.0.0.0:8490", hosts=(), token=None).refusal("/", {"host": "box"}) is Denial.OTHER_HOST
    assert access_to("0.0.0.0:8490", hosts=(), token=None).refusal("/", {}) is None  # HTTP/1.0


def basic(password: str) -> str:
    return "Basic " + base64.b64encode(f"any:{password}".encode()).decode()


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "given",
    [
        None,
        "",
        "Bearer",
        f"Bearer {TOKEN}x",
        f"Token {TOKEN}",
        f"Bearer {TOKEN[:-1]}",
        basic("no"),
        "Basic ?",
        "Bearer \xe4",
    ],
)
def test_without_the_token_nothing_is_shown_but_health(path: str, given: str | None) -> None:
    """A request without it does not learn which tables there are: pages that exist and pages that do not are answered
    alike."""
    client = client_of(AccessRules(token=TOKEN))
    answer = client.get(path, headers={} if given is None else {"Authorization": given.encode("latin-1")})
    if path in OPEN_PATHS:
        assert answer.status_code == 200
        return
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Basic ")
    assert {name: answer.headers[name] for name in SECURITY_HEADERS} == dict(SECURITY_HEADERS)
    assert answer.text == client.get("/", headers={}).text
    assert "orders" not in answer.text


@pytest.mark.parametrize("given", [f"Bearer {TOKEN}", f"bearer  {TOKEN} ", basic(TOKEN)])
def test_with_the_token_everything_is(given: str) -> None:
    """The token is taken in the form that Prometheus gives, and in that of a browser."""
    daemon = Daemon()
    client = client_of(AccessRules(token=TOKEN), daemon)
    assert client.get("/metrics", headers={"Authorization": given}).status_code == 200
    assert client.get("/", headers={"Authorization": given}).status_code == 200
    assert client.post("/-/reload").status_code == 401
    assert daemon.reloads == 0
    assert client.post("/-/reload", headers={"Authorization": given}).status_code == 200
    assert daemon.reloads == 1
