"""How large a bloom filter is, and how often it errs.

Touches: nothing.
"""

from __future__ import annotations

import math
from typing import Final

ERROR_RATE: Final = 1e-9
"""Hudi's default."""
NOTABLE_RATE: Final = 10 * ERROR_RATE
"""A filter that errs more often has too few bits for its keys, which is reported."""
ROW_BYTES_MAX: Final = 16 * 1024**2
"""What the bits may take where nothing else is said."""
ROW_BYTES_LIMIT: Final = 64 * 1024**2
"""What can be asked for. As text it is 86 MiB, and Parquet's readers take no footer of more than 100 MB."""


def size_for(keys: int, bytes_max: int) -> tuple[int, int]:
    """(bits, hashes) of a new filter."""
    bits = min(math.ceil(keys * -math.log(ERROR_RATE) / math.log(2) ** 2), bytes_max * 8)
    return bits, max(1, round(math.log(2) * bits / keys))


def error_rate(keys: float, bits: int, hashes: int) -> float:
    """How often a key is found that was not added."""
    return float((-math.expm1(-hashes * keys / bits)) ** hashes)
