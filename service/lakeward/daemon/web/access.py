"""Who may read the daemon's pages and metrics: the name under which it was asked for, and the token.

A page of a stranger can let its own name lead to this address, and a browser then takes the two for one origin. So the
name must be one that the configuration knows; an address in numbers cannot be given away and stands for itself.

Health and readiness are open: they say no more than that there is a daemon, and probes carry neither name nor token.

Touches: nothing.
Keeps:   1. how long a comparison takes says nothing about the token;
         2. with a token, nothing but health is answered without it.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from lakeward.config.listen_address import host_of

OPEN_PATHS = frozenset({"/-/healthy", "/healthz", "/livez", "/-/ready", "/readyz"})


class Denial(Enum):
    OTHER_HOST = 421
    NO_TOKEN = 401


@dataclass(frozen=True, slots=True)
class AccessRules:
    hosts: frozenset[str] | None = None
    """Names of this host, in lower case; None: any name."""
    token: str | None = None

    def refusal(self, path: str, headers: Mapping[str, str]) -> Denial | None:
        """Why the request is not answered; None when it is."""
        if path in OPEN_PATHS:
            return None
        if self.hosts is not None and not _is_own(headers.get("host"), self.hosts):
            return Denial.OTHER_HOST
        if self.token is not None and not _is_token(headers.get("authorization", ""), self.token):
            return Denial.NO_TOKEN
        return None

    def refusal_to_act(self, headers: Mapping[str, str]) -> str | None:
        """Why a request that may be answered may not change anything; None when it may. Without a token nothing says
        who asks; a browser sends what `Basic` asked for by itself, also for pages of strangers."""
        if self.token is None:
            return "Actions need a token, and none is configured (http.token_file)."
        if headers.get("authorization", "").partition(" ")[0].lower() != "bearer":
            return "Actions take the token as `Authorization: Bearer TOKEN`, not as a password."
        return None


def access_to(listen: str, *, hosts: tuple[str, ...], token: str | None) -> AccessRules:
    """The rules, with what `listen` says of names."""
    host = host_of(listen)
    return AccessRules(frozenset({"localhost", host, *(name.lower() for name in hosts)}), token)


def _is_own(header: str | None, hosts: frozenset[str]) -> bool:
    if header is None:  # only what speaks HTTP/1.0 leaves it out, and that is no browser
        return True
    host = host_of(header)
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host in hosts
    return True


def _is_token(authorization: str, token: str) -> bool:
    """True if it is `Bearer TOKEN`, or the token as the password of any user, which browsers ask for."""
    scheme, _, given = authorization.partition(" ")
    if scheme.lower() == "basic":
        try:
            given = base64.b64decode(given.strip(), validate=True).decode().partition(":")[2]
        except (binascii.Error, ValueError):
            return False
    elif scheme.lower() != "bearer":
        return False
    return hmac.compare_digest(given.strip().encode(errors="replace"), token.encode())
