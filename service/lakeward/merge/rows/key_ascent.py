"""Whether keys come in the order of their bytes, none of them twice: batches of keys in, yes or no out.

Touches: nothing.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


class KeyAscent:
    def __init__(self) -> None:
        self.is_strict = True
        self.repeated: str | None = None
        """The first key that is equal to the one before it."""
        self._last: pa.Array | None = None

    def see(self, keys: pa.Array) -> None:
        if len(keys) == 0:
            return
        both = keys if self._last is None else pa.concat_arrays([self._last, keys])
        before, after = both.slice(0, len(both) - 1), both.slice(1)
        self._last = keys.slice(len(keys) - 1)
        if pc.all(pc.less(before, after), min_count=0).as_py():
            return
        self.is_strict = False
        at = pc.index(pc.equal(before, after), True).as_py()
        if self.repeated is None and at >= 0:
            self.repeated = after[at].as_py()
