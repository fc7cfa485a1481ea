"""`lakeward.Table` on a table in an S3-compatible store: the rows of Hudi, also where replies are cut off."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

import lakeward
from lakeward.base.errors import TryLater
from lakeward.storage.object_store import ObjectStore
from lakeward.storage.object_url import parse_object_url
from tests.golden_tables import copy_golden, expected_rows
from tests.object_tables import bring

if TYPE_CHECKING:
    from tests.servers import S3Server

pytestmark = pytest.mark.services


def test_rows_are_those_of_hudi_though_replies_are_cut_off(
    bucket: str, s3_server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first reply with each data file ends in its middle. What is gone ends the query."""
    store = ObjectStore(parse_object_url(bucket))
    url = bring(copy_golden("v9_metadata", tmp_path / "golden"), store, f"{bucket}/a/orders")
    expected = {row["_hoodie_record_key"]: row for row in expected_rows("v9_metadata")}
    with cutting(s3_server.environment["AWS_ENDPOINT_URL"]) as (endpoint, cut):
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        found = lakeward.Table(url).scan(meta_columns=True).to_arrow().drop_columns(["_hoodie_file_name"]).to_pylist()
    assert {row["_hoodie_record_key"]: row for row in found} == {
        key: {name: row[name] for name in found[0]} for key, row in expected.items()
    }
    assert len(found) == len(expected) and len(cut) > 1
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server.environment["AWS_ENDPOINT_URL"])
    table = lakeward.Table(url)
    for path in cut:
        store.delete(f"{url}/{path.partition('/a/orders/')[2]}")
    with pytest.raises(TryLater, match="were deleted while the query ran"):
        list(table.scan())


@contextmanager
def cutting(endpoint: str) -> Iterator[tuple[str, list[str]]]:
    """A server before the one at `endpoint`, and the paths of the data files whose first reply it cut off."""
    cut: list[str] = []
    place = urlsplit(endpoint).netloc

    class Cutting(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            behind = http.client.HTTPConnection(place)
            behind.request(self.command, self.path, headers=dict(self.headers))
            reply = behind.getresponse()
            body = reply.read()
            self.send_response(reply.status)
            for name, value in reply.getheaders():
                if name.lower() not in ("connection", "date", "server", "transfer-encoding"):
                    self.send_header(name, value)
            self.end_headers()
            path = urlsplit(self.path).path
            is_data = (
                self.command == "GET" and "/.hoodie/" not in path and path.rpartition("/")[2].lstrip(".")[36:37] == "-"
            )
            if is_data and path not in cut:
                cut.append(path)
                body = body[: len(body) // 2]
                self.close_connection = True
            self.wfile.write(body)
            behind.close()

        do_HEAD = do_GET

        def log_message(self, format: str, *words: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Cutting)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", cut
    finally:
        server.shutdown()
        server.server_close()
