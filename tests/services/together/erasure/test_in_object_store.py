"""A key is erased from a table in a bucket: each object that has it is named, and older versions were not looked at."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakeward.cli.main import run
from lakeward.storage.object_store import ObjectStore
from lakeward.storage.object_url import parse_object_url
from tests.object_tables import bring, fetch
from tests.services.together.erasure.canary import decompressed, files_with
from tests.services.together.erasure.test_erase_expedite import STOPPED, expedite
from tests.services.together.erasure.test_erase_status import CANARY, held, small, status

if TYPE_CHECKING:
    from tests.servers import S3Server

pytestmark = [pytest.mark.services, pytest.mark.turns(13), pytest.mark.usefixtures("short_waits")]


def test_a_key_in_a_bucket(bucket: str, s3_server: S3Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """At each step the objects that it names are those that have the key in their decompressed bytes, until none has;
    older versions of the objects have it still, and are among what was not looked at."""
    name = bucket.removeprefix("s3://")
    s3_server.keep_versions(name)
    keys, config = tmp_path / "keys.txt", tmp_path / "lakeward.toml"
    keys.write_text(f"{CANARY}\n")
    config.write_text('[defaults.clean]\nretain = 1\nreader_window = "0s"\n')
    store = ObjectStore(parse_object_url(bucket))
    table = bring(small(tmp_path / "made"), store, f"{bucket}/orders")

    def with_key(step: str) -> set[str]:
        return files_with(fetch(store, table, tmp_path / step), CANARY)

    code, document = status(table, keys, capfd)
    assert code == 7 and document["unread"] == [] and held(document) == with_key("before") != set()
    code, document, ran = expedite(table, keys, capfd, *STOPPED, "--config", str(config))
    assert (code, ran) == (7, ["compact", "clean"]) and held(document) == with_key("merged")
    lake = ("--policy", "versions", "--retain", "1", "--reader-window", "0s", "--writers", "stopped")
    assert run(["clean", table, *lake]) == 0
    code, document = status(table, keys, capfd)
    assert (code, document["gone"], with_key("cleaned")) == (0, True, set())

    assert any("older versions of its objects" in each for each in document["not_looked_at"])

    def has_key(data: bytes) -> bool:
        (tmp_path / "version").write_bytes(data)
        return any(CANARY.encode() in part for part in decompressed(tmp_path / "version"))

    assert any(has_key(data) for data in s3_server.versions(name))
