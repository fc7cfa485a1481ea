"""`lakeward reload`: let the daemon of a configuration reload it, as SIGHUP does, and report the result.

Touches: stdout; the configuration, reading only; the daemon, through its address.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

from lakeward.base.errors import ConfigurationError, LakewardError
from lakeward.cli.configured_table import ConfigOption
from lakeward.cli.options.store import read_settings
from lakeward.cli.result import Result
from lakeward.config.listen_address import local_address

if TYPE_CHECKING:
    from lakeward.config.settings import Settings

ANSWER_SECONDS = 30.0


def reload(config: ConfigOption = None) -> Result:
    """Let the daemon on this machine reload its configuration. If the new one has a problem, nothing changes."""
    settings = read_settings(config)
    answer = _ask(settings)
    if not answer.get("applied"):
        error = ConfigurationError(
            "The daemon reloaded nothing.",
            why="It keeps the configuration that it has.",
            remedy="Correct what is named below; `lakeward config check` says whether all is well.",
        )
        for problem in answer.get("problems", ()):
            error.add_note(str(problem))
        raise error
    return Result(
        document={"reloaded": True, "address": settings.service.listen},
        lines=[f"The daemon at {settings.service.listen} has reloaded its configuration."],
    )


def _ask(settings: Settings) -> dict[str, Any]:
    address = local_address(settings.service.listen)
    headers = {} if settings.http_token is None else {"Authorization": f"Bearer {settings.http_token}"}
    try:
        # The daemon is on this machine; a proxy of the environment would look for it on its own.
        with build_opener(ProxyHandler({})).open(
            Request(f"http://{address}/-/reload", method="POST", headers=headers), timeout=ANSWER_SECONDS
        ) as answered:
            text = answered.read()
    except HTTPError as refused:
        if refused.code != 500:
            raise LakewardError(
                f"The daemon at {address} refuses to reload ({refused.code}).",
                why="Its token differs from the one in this configuration, or it is no Lakeward daemon.",
                remedy="Name the configuration that it was started with by --config.",
            ) from refused
        text = refused.read()
    except OSError as error:
        raise LakewardError(
            f"No daemon answers at {address}.",
            why=f"{getattr(error, 'reason', error)}. The address is service.listen of this configuration.",
            remedy="Name the daemon's configuration by --config; or find its process with `pgrep -af 'lakeward run'`, "
            "and send it SIGHUP.",
        ) from error
    answer: dict[str, Any] = json.loads(text)
    return answer
