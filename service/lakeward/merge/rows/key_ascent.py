"""Whether keys come in the order of their bytes, none of them twice: batches of keys in, yes or no out.

Touches: nothing.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


class KeyAscent:
    def __init__(self) -> None:
        self.is_strict = True
        self._last: str | None = None

    def see(self, keys: pa.Array) -> None:
        if len(keys):
            ascends = bool(pc.all(pc.less(keys[:-1], keys[1:]), min_count=0).as_py())
            follows = self._last is None or self._last.encode() < keys[0].as_py().encode()
            self.is_strict = self.is_strict and ascends and follows
            self._last = keys[-1].as_py()
