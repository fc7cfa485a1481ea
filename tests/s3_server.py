"""moto's S3 server on a port of this machine, with writes one at a time: `python -m tests.s3_server PORT`.

moto compares an object with the condition of a write, and puts the new one later. Between the two another thread may
put its own, so that of two conditional writes both succeed, which S3 never lets happen.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

App = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def one_write_at_a_time(app: App) -> App:
    alone = threading.Lock()

    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] in ("GET", "HEAD"):
            return app(environ, start_response)
        with alone:
            return app(environ, start_response)

    return serve


if __name__ == "__main__":
    served = one_write_at_a_time(DomainDispatcherApplication(create_backend_app))
    run_simple("127.0.0.1", int(sys.argv[1]), served, threaded=True)
