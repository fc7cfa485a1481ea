"""How a place in an object store is named, and what of it is the bucket and what the key.

    s3://BUCKET/KEY   s3a://BUCKET/KEY                         one and the same
    gs://BUCKET/KEY
    abfs[s]://CONTAINER@ACCOUNT.dfs.core.windows.net/KEY       without @ACCOUNT…: the account of the environment
    wasb[s]://CONTAINER@ACCOUNT.blob.core.windows.net/KEY

A key is taken as it stands, as Hadoop's file systems take it: nothing in it is unquoted, and `?` and `#` belong to it.

Touches: nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from lakeward.base.errors import UsageError


class Provider(StrEnum):
    S3 = "s3"
    GOOGLE = "gs"
    AZURE = "az"


SCHEMES = {
    "s3": Provider.S3,
    "s3a": Provider.S3,
    "gs": Provider.GOOGLE,
    "abfs": Provider.AZURE,
    "abfss": Provider.AZURE,
    "wasb": Provider.AZURE,
    "wasbs": Provider.AZURE,
}
"""Schemes that Hudi's storage-based lock knows too."""

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_AZURE_HOST = re.compile(r"(?P<container>[a-z0-9$-]+)(?:@(?P<account>[a-z0-9]+)\.(?:dfs|blob)\.core\.windows\.net)?")


@dataclass(frozen=True, slots=True)
class ObjectUrl:
    """A place in an object store."""

    scheme: str
    authority: str
    """The part between `://` and the key."""
    key: str
    """Without slashes at its ends; empty for the whole bucket."""

    @property
    def provider(self) -> Provider:
        return SCHEMES[self.scheme]

    @property
    def bucket(self) -> str:
        return self.authority.partition("@")[0]

    @property
    def account(self) -> str | None:
        """The account of Azure, where the URL names one."""
        host = self.authority.partition("@")[2]
        return host.partition(".")[0] or None

    @property
    def root(self) -> str:
        return f"{self.scheme}://{self.authority}"

    def __str__(self) -> str:
        return f"{self.root}/{self.key}" if self.key else self.root


def is_object_url(location: str) -> bool:
    scheme, found, _ = location.partition("://")
    return bool(found) and scheme.lower() in SCHEMES


def parse_object_url(location: str) -> ObjectUrl:
    """Raises `UsageError` for what is no such URL. `s3a` becomes `s3`, so that a table has one name."""
    scheme, _, rest = location.partition("://")
    scheme = {"s3a": "s3"}.get(scheme.lower(), scheme.lower())
    authority, _, key = rest.partition("/")
    grammar = _AZURE_HOST if SCHEMES[scheme] is Provider.AZURE else _BUCKET
    if grammar.fullmatch(authority) is None:
        like = "container@account.dfs.core.windows.net" if SCHEMES[scheme] is Provider.AZURE else "lake"
        raise _refused(location, f"{authority!r} is not the name of a bucket.", f"{scheme}://{like}/orders")
    key = key.strip("/")
    parts = key.split("/") if key else []
    if not all(parts) or {".", ".."} & set(parts) or any(ord(character) < 32 for character in key):
        raise _refused(
            location, "It has an empty part, '.', '..' or a control character.", f"{scheme}://{authority}/orders"
        )
    return ObjectUrl(scheme, authority, key)


def _refused(location: str, why: str, like: str) -> UsageError:
    return UsageError(f"{location} is not a place in an object store.", why=why, remedy=f"Write it like {like}.")
