"""The name of who runs a command, for what records or sends it.

Touches: the environment and the machine's list of users, reading.
"""

from __future__ import annotations

from getpass import getuser


def user_name() -> str:
    """`unknown` for a container's user that has no name."""
    try:
        return getuser()
    except (KeyError, OSError):
        return "unknown"
