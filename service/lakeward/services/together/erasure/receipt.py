"""The receipt that keys are gone: JSON, signed by an HMAC with a key of the operator; and what checks one.

    statement, looked_at, not_looked_at    what was seen, and what was not: the second is never empty
    indexes_elsewhere                      the indexes on servers that were asked
    at, instant                            the clock of the machine, and the newest completed instant of the timeline
    salt, keys                             an HMAC-SHA256 of each key with the salt, in the order of their digits
    signature                              HMAC-SHA256 of all else, with sorted fields and no spaces

A salted HMAC keeps a reader without candidates from learning a key, and two receipts from being compared. It hides no
key from a reader who can guess it, since the salt is in the receipt: else no one could ask whether a key is in it.

The signature says that a process with the operator's key wrote the receipt, and that nothing of it was changed since.
It proves nothing to a reader without that key, and a reader with it could have written the receipt.

Touches: nothing.
Keeps:   1. a receipt is made only of a status in which all keys are gone and nothing was left unread;
         2. a receipt in which anything was changed, or that another key signed, is refused;
         3. no key is in a receipt, and a key that is not among its HMACs is never said to be.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from lakeward.base.errors import UsageError, VerificationFailed
from lakeward.base.quantities import format_iso_time
from lakeward.services.together.erasure.erase_status import EraseStatus
from lakeward.services.together.erasure.key_file import key_hmac

SIGNING_KEY_BYTES_MIN: Final = 32
_FORMAT: Final = "lakeward.erasure-receipt"
_VERSION: Final = 1
_ALGORITHM: Final = "HMAC-SHA256"
_STATEMENT: Final = (
    "No file that the timeline, the metadata table, Lakeward's folders and indexes, the quarantine or a listing of the "
    "base path names holds these keys, and none of the indexes elsewhere that are named here."
)


@dataclass(frozen=True, slots=True)
class CheckedReceipt:
    """What a receipt says whose signature is right."""

    document: dict[str, Any]
    missing: tuple[int, ...]
    """Which of the keys that were asked for are not in it, by their places."""


def make_receipt(
    status: EraseStatus, keys: Sequence[str], *, base_path: str, salt: bytes, signing_key: bytes, made_by: str
) -> bytes:
    assert status.is_gone, "a receipt of what is not gone would be a lie"
    document = {
        "format": _FORMAT,
        "version": _VERSION,
        "base_path": base_path,
        "at": status.at,
        "at_time": format_iso_time(status.at),
        "clock": "of the machine that looked, not compared with another one",
        "instant": status.instant,
        "statement": _STATEMENT,
        "looked_at": status.looked_at.as_json(),
        "indexes_elsewhere": [index.name for index in status.asked],
        "not_looked_at": list(status.not_looked_at),
        "too_short_for_text": status.too_short_for_text,
        "salt": salt.hex(),
        "keys": sorted(key_hmac(salt, key) for key in keys),
        "made_by": made_by,
    }
    document["signature"] = {
        "algorithm": _ALGORITHM,
        "key_id": _key_id(signing_key),
        "value": _signature(document, signing_key),
    }
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n"


def check_receipt(data: bytes, *, name: str, signing_key: bytes, keys: Sequence[str] = ()) -> CheckedReceipt:
    """Raises `UsageError` for what is no receipt, and `VerificationFailed` for one that is not as it was signed.

    Args:
        name: of the file, in errors.
        keys: asked for.
    """
    try:
        document = orjson.loads(data)
        signature = document.pop("signature")
        said = (document["format"], document["version"], signature["algorithm"])
        key_id, value = str(signature["key_id"]), str(signature["value"])
        salt, known = bytes.fromhex(document["salt"]), set(document["keys"])
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UsageError(f"{name} is no receipt.", why="It is not the JSON document that one is.") from None
    if said != (_FORMAT, _VERSION, _ALGORITHM):
        raise UsageError(f"{name} is no receipt that this release reads.", why=f"It is {' '.join(map(str, said))}.")
    if key_id != _key_id(signing_key):
        raise VerificationFailed(
            f"{name} was signed with another key.", why=f"With {key_id}, and the key given is {_key_id(signing_key)}."
        )
    if not hmac.compare_digest(value, _signature(document, signing_key)):
        raise VerificationFailed(f"{name} is not as it was signed.", why="Its signature is that of another document.")
    missing = tuple(number for number, key in enumerate(keys) if key_hmac(salt, key) not in known)
    return CheckedReceipt(document, missing)


def check_signing_key(data: bytes, *, name: str) -> bytes:
    """Raises `UsageError` for a key that is too short to sign with."""
    if len(data) < SIGNING_KEY_BYTES_MIN:
        raise UsageError(
            f"The key in {name} is too short to sign with.",
            why=f"It has {len(data)} bytes, and {SIGNING_KEY_BYTES_MIN} are the least.",
            remedy="Make one, and keep it: openssl rand -out receipts.key 32.",
        )
    return data


def _signature(document: dict[str, Any], signing_key: bytes) -> str:
    signed = orjson.dumps(document, option=orjson.OPT_SORT_KEYS)
    return hmac.new(signing_key, signed, hashlib.sha256).hexdigest()


def _key_id(signing_key: bytes) -> str:
    """The name of a key, which says nothing of it."""
    return hmac.new(signing_key, b"lakeward receipt key", hashlib.sha256).hexdigest()[:16]
