"""The two orders in which keys may lie in an HFile.

HBase's writer takes keys in the order of their bytes. Hudi's own writer takes them as they come, and Hudi sorts Java
strings, by their UTF-16 units: there U+E000 to U+FFFF come after what lies beyond U+FFFF. The orders differ only
between keys whose first difference is of these two kinds, an emoji against a full-width letter for example; Hudi's own
lookups, which use bytes, can miss such a key. For every other key both orders find the same place in either file.

Touches: nothing.
"""

from __future__ import annotations

import re
from enum import Enum

# The first bytes in UTF-8: 0xEE and 0xEF for U+E000 to U+FFFF, 0xF0 to 0xF4 for what lies beyond.
_LEADS = re.compile(rb"[\xee-\xf4]")
_AS_UTF_16 = bytes.maketrans(b"\xf0\xf1\xf2\xf3\xf4\xee\xef", b"\xee\xef\xf0\xf1\xf2\xf3\xf4")


class KeyOrder(Enum):
    BYTES = "bytes"
    UTF_16 = "UTF-16"

    def rank(self, key: bytes) -> bytes:
        """Bytes that compare as the keys do in this order."""
        return key if self is KeyOrder.BYTES else key.translate(_AS_UTF_16)


def depends_on_order(key: bytes) -> bool:
    """Whether the key may have different places in the two orders."""
    return _LEADS.search(key) is not None
