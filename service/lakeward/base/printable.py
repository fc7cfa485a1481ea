"""What may be seen of a text: all of it but the secrets in its URLs, connection strings and settings.

    scheme://user:password@host             the password, to the last @, since it may hold one
    https://token@host                      the user that stands there, but in Azure, where that is the container
    sc://host:15002/;token=…;x-key=…        each parameter that is not Spark Connect's own: they are sent as headers
    …?X-Amz-Signature=…&sig=…               each parameter, setting or assignment whose name names a secret
    any text                                values that are known to be secrets, in each encoding that they may have

Touches: nothing.
Keeps:   1. no secret of these forms is in what comes out;
         2. the names of hosts, users, tables, partitions and files stay, and what means nothing to anybody else, such
            as Hudi's write tokens;
         3. what comes out is UTF-8.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import quote, quote_plus, unquote

HIDDEN = "[hidden]"

_SECRET_NAME = re.compile(
    r"pass(word|wd|phrase)|\bpass\b|pwd|secret|token|credential|authorization|signature|"
    r"(api|private|access|account)[_.-]?key|(^|[._-])(sas|sig)($|[._-])",
    re.IGNORECASE,
)
_HARMLESS_NAME = re.compile(r"(file|path|location|provider|enabled|duration)$|^(write|fencing)[_.-]?token$", re.I)
"""What says where a secret is, or how it is used; and tokens of Hudi and of leases, which open nothing."""

SPARK_REDACTION = "(?i)secret|password|passwd|token|credential|(access|account|api|private)[._-]?key|[.]sas[.]"
"""The same as far as one expression says it, for `spark.redaction.regex`: Spark's own default knows no account keys."""

_URL = re.compile(r"\b[a-z][a-z0-9+.-]{0,30}://(?:[^\s'\"]*@)?[^\s'\"]*", re.I)
_PARAMETER = re.compile(r"(?<=[?;&])(?P<name>[^=?;&]+)=(?P<value>[^;&]*)")
_CONNECT_OWN = frozenset({"use_ssl", "user_id", "user_agent", "session_id"})
_TOKEN_SCHEMES = frozenset({"http", "https", "sc", "s3", "s3a", "gs", "spark"})
"""Schemes of which no address has a user alone."""

# Not inside of a path: a partition may be called `token=3`.
_ASSIGNED = re.compile(
    r"(?P<name>(?<![\w./-])[\w.-]+)(?P<between>['\"]?\s*[=:]\s*)"
    r"(?P<value>'[^']*'|\"[^\"]*\"|(?:(?:bearer|basic)\s+)?[^\s,;&'\"()\[\]{}]+)",
    re.I,
)

_SHORTEST = 4
"""Hiding every `a` would reveal more than it hides."""
_WORKING_FOLDERS = frozenset({"PWD", "OLDPWD"})
"""Every shell sets them; a PWD in a connection string is a password."""

_SHORTEST_VARIABLE = 8
"""A variable may be called so and say only `true`."""


def names_secret(name: str) -> bool:
    """True for the name of a parameter, setting, field or variable whose value is to stay hidden."""
    return _SECRET_NAME.search(name) is not None and _HARMLESS_NAME.search(name) is None


def printable_url(url: str) -> str:
    """One URL, whatever it may hold, without its secrets."""
    scheme, found, rest = url.partition("://")
    if not found:
        return url
    user, _, place = _user_and_place(scheme, rest)

    def hide(parameter: re.Match[str]) -> str:
        return f"{parameter['name']}={HIDDEN if _hides(scheme, parameter) else parameter['value']}"

    return f"{scheme}://{user}{_PARAMETER.sub(hide, place)}"


def printable(text: str, known: Iterable[str] = ()) -> str:
    """A text without secrets: those in its URLs, those under a name that names one, and the `known` ones.

    Bytes of a file's name that are no UTF-8 become escapes: no log and no store could take them.
    """
    text = text.encode(errors="backslashreplace").decode()
    for secret in known:
        if secret in text:
            text = text.replace(secret, HIDDEN)
    text = _URL.sub(lambda url: printable_url(url[0]), text)
    return _ASSIGNED.sub(_hide_assigned, text)


def secrets_in(text: str) -> set[str]:
    """What `printable` hides of a text by its form: to be known where it turns up without that form."""
    found = {match["value"].strip("'\"") for match in _ASSIGNED.finditer(text) if names_secret(match["name"])}
    for match in _URL.finditer(text):
        scheme, _, rest = match[0].partition("://")
        _, password, place = _user_and_place(scheme, rest)
        found.add(password)
        found |= {parameter["value"] for parameter in _PARAMETER.finditer(place) if _hides(scheme, parameter)}
    return found | {unquote(value) for value in found}


def secrets_around(environment: Mapping[str, str], arguments: Sequence[str] = ()) -> set[str]:
    """The secrets that a process was given: in variables that name one, in URLs and settings of both."""
    found = {
        value
        for name, value in environment.items()
        if names_secret(name) and name not in _WORKING_FOLDERS and len(value) >= _SHORTEST_VARIABLE
    }
    for text in (*environment.values(), *arguments):
        found |= secrets_in(text)
    return found


def encodings(secrets: Iterable[str]) -> tuple[str, ...]:
    """Secrets in every encoding that they may be met in, the longest first; none too short to be one."""
    known: set[str] = set()
    for secret in secrets:
        escaped = json.dumps(secret)[1:-1]
        known |= {secret, quote(secret, safe=""), quote_plus(secret), escaped, repr(secret)[1:-1]}
    longest_first = sorted(known, key=lambda value: (-len(value), value))
    return tuple(value for value in longest_first if len(value) >= _SHORTEST)


def _user_and_place(scheme: str, rest: str) -> tuple[str, str, str]:
    """What may be seen of the user, with its `@`; what may not; and what follows."""
    user, at, place = rest.rpartition("@")
    name, colon, password = user.partition(":")
    if not at or "/" in name or scheme.lower() == "file":
        return "", "", rest  # an @ further on belongs to a path
    if colon:
        return f"{name}:{HIDDEN}@", password, place
    return (f"{HIDDEN}@", user, place) if scheme.lower() in _TOKEN_SCHEMES else (f"{user}@", "", place)


def _hides(scheme: str, parameter: re.Match[str]) -> bool:
    name = parameter["name"].lower()
    return name not in _CONNECT_OWN if scheme.lower() == "sc" else names_secret(name)


def _hide_assigned(match: re.Match[str]) -> str:
    if not names_secret(match["name"]) or HIDDEN in match["value"]:
        return match[0]
    return f"{match['name']}{match['between']}{HIDDEN}"
