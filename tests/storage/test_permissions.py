"""The policy for S3 in docs/start/permissions.md permits what Lakeward asks for, and little else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakeward.storage.object_store import PART_BYTES, ObjectStore
from lakeward.storage.object_url import parse_object_url
from tests.s3_policy import Need, check_permitted, is_permitted, policy

if TYPE_CHECKING:
    from tests.servers import S3Server


@pytest.mark.services
def test_every_call_of_storage_is_permitted(bucket: str, s3_server: S3Server) -> None:
    """Listed, read, written in one piece and in parts, replaced, given up, deleted one by one and by the folder.

    `tests/cli/test_in_object_store.py` holds the same of commands on a table.
    """
    store, base = ObjectStore(parse_object_url(bucket)), f"{bucket}/lake"
    store.create(f"{base}/orders/a", b"1")
    data, version = store.read_version(f"{base}/orders/a")
    assert data == b"1"
    store.replace(f"{base}/orders/a", b"2", expected=version)
    with store.open_output(f"{base}/orders/large") as file:
        file.write(bytes(PART_BYTES + 1))
    with pytest.raises(KeyboardInterrupt), store.open_output(f"{base}/orders/given-up") as file:
        file.write(bytes(PART_BYTES * 2))
        raise KeyboardInterrupt
    with store.open_input(f"{base}/orders/large") as file:
        assert file.read(3) == bytes(3)
    assert store.stat(f"{base}/orders/none") is None
    assert len(store.list(f"{base}/orders")) == 2
    store.delete(f"{base}/orders/a")
    store.delete_folder(f"{base}/orders")

    used = check_permitted(s3_server.requests(bucket.removeprefix("s3://")), prefix="lake")

    # The client asks for the last one by itself, where a part cannot be sent.
    permitted = {action for each in policy() for action in _actions(each["Action"])}
    assert permitted - used == {"s3:AbortMultipartUpload"}


def test_the_policy_permits_nothing_beside_the_tables() -> None:
    """No other path of the bucket, no listing of all of it, and no other action."""
    assert is_permitted(Need("s3:GetObject", "lake/orders/a"), prefix="lake")
    assert is_permitted(Need("s3:ListBucket", "lake/"), prefix="lake")
    for need in (
        Need("s3:GetObject", "lake2/a"),
        Need("s3:DeleteObject", "other/a"),
        Need("s3:ListBucket", ""),
        Need("s3:ListBucket", "lake2/"),
        Need("s3:PutBucketPolicy", "lake/a"),
    ):
        assert not is_permitted(need, prefix="lake")


def _actions(given: str | list[str]) -> list[str]:
    return [given] if isinstance(given, str) else given
