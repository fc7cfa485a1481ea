"""What a record index is created with, and keeps until it is rebuilt: by what a key is one, and the hashes' names.

    global       one place a key in all of the table
    partition    one place a key in each partition

Touches: nothing; it loads no kernels, so that a process which only reads manifests has none.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

DEFAULT_HASH: Final = "java-string"
SECOND_HASH: Final = "lakeward-64"
OWN_PREFIX: Final = "own:"
"""The name of a hash of the operator's own begins so (`index/record/own_hash`)."""


class KeyScope(Enum):
    GLOBAL = "global"
    PARTITION = "partition"
