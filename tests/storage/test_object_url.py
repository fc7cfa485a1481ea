"""What is a place in an object store, and which one."""

from __future__ import annotations

import pytest

from lakeward.base.errors import UsageError
from lakeward.storage.object_url import Provider, is_object_url, parse_object_url
from lakeward.storage.storage import RenamingStorage, VersionedStorage
from lakeward.storage.storage_of_url import open_storage


@pytest.mark.parametrize(
    ("written", "read", "provider", "bucket", "account"),
    [
        ("s3://lake/orders", "s3://lake/orders", Provider.S3, "lake", None),
        ("s3a://lake/a/b/", "s3://lake/a/b", Provider.S3, "lake", None),
        ("S3://lake", "s3://lake", Provider.S3, "lake", None),
        ("s3://lake/a b/c%20d?e#f=1", "s3://lake/a b/c%20d?e#f=1", Provider.S3, "lake", None),
        ("gs://lake.example.com/orders", "gs://lake.example.com/orders", Provider.GOOGLE, "lake.example.com", None),
        ("abfs://lake/orders", "abfs://lake/orders", Provider.AZURE, "lake", None),
        (
            "abfss://lake@acme.dfs.core.windows.net/orders",
            "abfss://lake@acme.dfs.core.windows.net/orders",
            Provider.AZURE,
            "lake",
            "acme",
        ),
        (
            "wasbs://lake@acme.blob.core.windows.net/",
            "wasbs://lake@acme.blob.core.windows.net",
            Provider.AZURE,
            "lake",
            "acme",
        ),
    ],
)
def test_places(written: str, read: str, provider: Provider, bucket: str, account: str | None) -> None:
    """One form for each, which leads to the same place again; a key is taken as it stands."""
    assert is_object_url(written)
    url = parse_object_url(written)
    assert (str(url), url.provider, url.bucket, url.account) == (read, provider, bucket, account)
    assert parse_object_url(read) == url


@pytest.mark.parametrize(
    "written",
    [
        "s3://",
        "s3:///orders",
        "s3://lake/a//b",
        "s3://lake/a/../b",
        "s3://lake/a/./b",
        "s3://user:secret@lake/orders",
        "s3://lake/a\nb",
        "abfss://lake@evil.example.com/orders",
        "abfss://lake@acme.dfs.core.windows.net.evil.example.com/orders",
    ],
)
def test_no_places(written: str) -> None:
    """Refused before anything is sent anywhere."""
    with pytest.raises(UsageError):
        parse_object_url(written)


def test_opening_is_lazy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is asked, and no credentials are needed, until something is read."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    storage, base_path = open_storage("s3a://lake/orders/")
    assert base_path == "s3://lake/orders"
    assert open_storage(base_path)[1] == base_path
    assert isinstance(storage, VersionedStorage) and not isinstance(storage, RenamingStorage)
    storage, base_path = open_storage("/data/orders/")
    assert isinstance(storage, RenamingStorage) and not isinstance(storage, VersionedStorage)
