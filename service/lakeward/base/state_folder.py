"""The folder in which the service keeps files of its own on this machine.

Touches: nothing but the environment's word for it.
"""

from __future__ import annotations

import os
from pathlib import Path


def state_folder() -> Path:
    """The folder of the service's own files: `$XDG_STATE_HOME/lakeward`, by default below `~/.local/state`."""
    home = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return Path(home) / "lakeward"
