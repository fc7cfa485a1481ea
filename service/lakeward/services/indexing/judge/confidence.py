"""How many of a population must be looked at to find what is wrong with it, and what is known after nothing was found.

Of N things a share p or more is wrong. Of n that are drawn without replacement, each set of n as likely as any other,
none is wrong with a probability of at most

    C(N - pN, n) / C(N, n)  <=  (1 - p)^n

So n = ln(1 - confidence) / ln(1 - p), rounded up, finds one with at least that confidence, however many there are; and
where n were looked at and none was wrong, fewer than 1 - (1 - confidence)^(1/n) are, with that confidence.

Touches: nothing.
"""

from __future__ import annotations

import math


def sample_size(error_rate: float, confidence: float) -> int:
    """How many to draw so that one that is wrong is among them with this confidence, if so many are.

    Args:
        error_rate: the share that is wrong, between 0 and 1, both excluded; so is the confidence.
    """
    assert 0 < error_rate < 1 and 0 < confidence < 1, "checked where they were given"
    return math.ceil(math.log1p(-confidence) / math.log1p(-error_rate))


def excluded_rate(checked: int, of: int, confidence: float) -> float | None:
    """The share that fewer are wrong than, where none of those drawn was; None where none was drawn. 0: all were."""
    assert 0 < confidence < 1, "checked where it was given"
    if checked >= of:
        return 0.0
    return -math.expm1(math.log1p(-confidence) / checked) if checked else None
