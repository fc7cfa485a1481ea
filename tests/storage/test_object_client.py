"""Clients are made from the environment, once for each bucket, and send nothing before the first request."""

from __future__ import annotations

import pytest

from lakeward.base.errors import UsageError
from lakeward.storage.object_client import clients_of
from lakeward.storage.object_url import parse_object_url

pytestmark = pytest.mark.services


def clients(url: str) -> object:
    return clients_of(parse_object_url(url))


def test_one_client_for_a_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    """All tables in it share the client; there is another one where the environment is another."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    assert clients("s3://lake/a") is clients("s3a://lake/b")
    assert clients("s3://lake/a") is not clients("s3://other/a")
    before = clients("s3://lake/a")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:2")
    assert clients("s3://lake/a") is not before


def test_the_other_stores() -> None:
    """They are opened likewise; Azure's account stands in the URL."""
    assert "lake" in repr(clients("gs://lake/orders"))
    assert clients("abfss://lake@acme.dfs.core.windows.net/orders") is not None
    assert clients("wasbs://lake@acme.blob.core.windows.net/orders") is not None


def test_what_the_environment_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error reports it as the caller's mistake, and where to find more."""
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(UsageError, match=r"object-stores\.md"):
        clients("abfs://lake/orders")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "acme")
    assert clients("abfs://lake/orders") is not None
