"""Which permissions on S3 a request needs, and whether the policy of docs/start/permissions.md gives them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

PAGE = Path(__file__).parents[1] / "docs" / "start" / "permissions.md"


@dataclass(frozen=True, slots=True, order=True)
class Need:
    action: str
    name: str
    """The key of an object, or for a listing its prefix."""


def need_of(method: str, target: str) -> Need:
    """Which action permits which request, as S3 documents it."""
    parts = urlsplit(target)
    query = parse_qs(parts.query, keep_blank_values=True)
    key = unquote(parts.path).removeprefix("/")
    match method:
        case "GET" if not key:
            return Need("s3:ListBucket", query.get("prefix", [""])[0])
        case "GET" | "HEAD":
            return Need("s3:GetObject", key)
        case "DELETE":
            return Need("s3:AbortMultipartUpload" if "uploadId" in query else "s3:DeleteObject", key)
        case "PUT" | "POST" if key:
            return Need("s3:PutObject", key)
        case "POST" if "delete" in query:
            return Need("s3:DeleteObject", "")  # of the keys that its body names
    raise AssertionError(f"which permission does {method} {target} need?")


def policy() -> list[dict[str, Any]]:
    """The statements on the page."""
    found = re.search(r"```json\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found
    statements: list[dict[str, Any]] = json.loads(found[1])["Statement"]
    return statements


def is_permitted(need: Need, *, prefix: str) -> bool:
    """Whether the policy permits it for tables below `prefix`."""

    def means(pattern: str) -> str:
        return pattern.replace("PREFIX", prefix).replace("arn:aws:s3:::BUCKET/", "")

    for statement in policy():
        actions = statement["Action"]
        if need.action not in ([actions] if isinstance(actions, str) else actions):
            continue
        if need.action == "s3:ListBucket":
            allowed = statement["Condition"]["StringLike"]["s3:prefix"]
        else:
            allowed = [statement["Resource"]]
        if need.name == "" and need.action == "s3:DeleteObject":
            return True
        if any(fnmatchcase(need.name, means(pattern)) for pattern in allowed):
            return True
    return False


def check_permitted(requests: Iterable[tuple[str, str]], *, prefix: str) -> set[str]:
    """Each request is permitted. Returns the actions that they needed."""
    needs = {need_of(method, target) for method, target in requests}
    assert [need for need in sorted(needs) if not is_permitted(need, prefix=prefix)] == []
    return {need.action for need in needs}
