"""The clients of object stores: made once for a bucket, configured and authorised by the environment.

    S3       AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION, AWS_ENDPOINT_URL, …; else the web
             identity, container or instance role of the machine
    Google   GOOGLE_APPLICATION_CREDENTIALS, GOOGLE_SERVICE_ACCOUNT, …; else the machine's service account
    Azure    AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY, AZURE_CLIENT_ID, …; else the machine's identity

There are two for each bucket. One tries again by itself, which is right for what may be done twice. The other does not:
it could not know which of two sends of a conditional write was refused.

Touches: environment variables, and the machine's metadata address where those name no credentials (`credentials`);
         nothing is sent to a store before the first request.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, S3Store

from lakeward.base.errors import UsageError
from lakeward.storage.credentials import check_credentials
from lakeward.storage.object_url import ObjectUrl, Provider

if TYPE_CHECKING:
    from obstore.store import ObjectStore

REQUEST_SECONDS = 30.0
"""Limit of a single request; a process that publishes counts on it."""

_PREFIXES = ("AWS_", "GOOGLE_", "AZURE_")
_BUCKETS_MAX = 64


@dataclass(frozen=True, slots=True)
class Clients:
    repeating: ObjectStore
    once: ObjectStore


def clients_of(url: ObjectUrl) -> Clients:
    """Clients of the bucket; for as long as the environment stays as it is, the same ones for all callers.

    Raises `NoCredentials`."""
    environment = tuple(sorted(item for item in os.environ.items() if item[0].startswith(_PREFIXES)))
    return _clients(url.provider, url.bucket, url.account, environment)


@lru_cache(maxsize=_BUCKETS_MAX)
def _clients(provider: Provider, bucket: str, account: str | None, environment: tuple[tuple[str, str], ...]) -> Clients:
    given = dict(environment)
    check_credentials(provider, f"{provider}://{bucket}", given)
    return Clients(
        _store(provider, bucket, account, given, retries=5), _store(provider, bucket, account, given, retries=0)
    )


def _store(
    provider: Provider, bucket: str, account: str | None, environment: dict[str, str], *, retries: int
) -> ObjectStore:
    options: dict[str, Any] = {
        "client_options": {"timeout": timedelta(seconds=REQUEST_SECONDS), "connect_timeout": timedelta(seconds=5)},
        "retry_config": {"max_retries": retries, "retry_timeout": timedelta(seconds=REQUEST_SECONDS)},
    }
    try:
        match provider:
            case Provider.S3:
                endpoint = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL")
                endpoint = environment.get("AWS_ENDPOINT") or endpoint
                if endpoint:
                    options["endpoint"] = endpoint
                    # A URL with http:// is meant so; without this the client refuses to speak to a local server.
                    options["client_options"]["allow_http"] = endpoint.startswith("http://")
                return S3Store(bucket, **options)
            case Provider.GOOGLE:
                return GCSStore(bucket, **options)
            case Provider.AZURE:
                if account is not None:
                    options["account_name"] = account
                return AzureStore(bucket, **options)
    except (BaseError, ValueError) as error:
        raise UsageError(
            f"The bucket {bucket} of {provider}:// cannot be opened.",
            why=f"{error}",
            remedy="Set the store's credentials in the environment; docs/operate/object-stores.md lists the names.",
        ) from error
