"""Hudi's audit of its storage-based lock: who held a table's lock, and when, where an operator turned that on.

    .hoodie/.locks/audit_enabled.json                          {"STORAGE_LOCK_AUDIT_SERVICE_ENABLED": true}
    .hoodie/.locks/audit/<start, epoch ms>_<owner>.jsonl       one line each for START, every RENEW, and END

Touches: the file of one holding.
Keeps:   an audit that cannot be written disturbs no lock.
Source:  StorageLockProviderAuditService, Hudi 1.2.
"""

from __future__ import annotations

from enum import StrEnum

import orjson

from lakeward.base.errors import LakewardError
from lakeward.storage.storage import Version, VersionedStorage, join

_SWITCH = "audit_enabled.json"
_ENABLED = "STORAGE_LOCK_AUDIT_SERVICE_ENABLED"


class AuditState(StrEnum):
    START = "START"
    RENEW = "RENEW"
    END = "END"


class LockAudit:
    """Audit of one holding of the lock."""

    def __init__(self, storage: VersionedStorage, path: str, owner: str, started_ms: int) -> None:
        self._storage = storage
        self._path = path
        self._owner = owner
        self._started_ms = started_ms
        self._lines = b""
        self._version: Version | None = None

    def record(self, state: AuditState, *, now_ms: int, validity_ms: int) -> None:
        self._lines += orjson.dumps(
            {
                "ownerId": self._owner,
                "transactionStartTime": self._started_ms,
                "timestamp": now_ms,
                "state": state.value,
                "lockExpiration": now_ms + validity_ms,
                "lockHeld": state is not AuditState.END,
            },
            option=orjson.OPT_APPEND_NEWLINE,
        )
        try:
            self._version = self._storage.replace(self._path, self._lines, expected=self._version)
        except (LakewardError, OSError):
            return  # the next record brings these lines along


def open_audit(storage: VersionedStorage, locks_folder: str, owner: str, *, started_ms: int) -> LockAudit | None:
    """None unless the table's audit is on."""
    try:
        switch = orjson.loads(storage.read(join(locks_folder, _SWITCH)))
    except (LakewardError, OSError, ValueError):
        return None
    if not isinstance(switch, dict) or switch.get(_ENABLED) is not True:
        return None
    return LockAudit(storage, join(locks_folder, "audit", f"{started_ms}_{owner}.jsonl"), owner, started_ms)
