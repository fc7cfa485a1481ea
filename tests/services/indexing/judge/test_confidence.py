"""Figures of samples, against those that the exact formula gives."""

from math import comb

import pytest

from lakeward.services.indexing.judge.confidence import excluded_rate, sample_size


@pytest.mark.parametrize(("rate", "confidence", "number"), [(0.001, 0.99, 4603), (0.001, 0.95, 2995), (0.5, 0.5, 1)])
def test_so_many_are_drawn(rate, confidence, number):
    """The number is the least by the formula, and in every population the exact probability of a miss is smaller."""
    assert sample_size(rate, confidence) == number
    assert (1 - rate) ** number <= 1 - confidence < (1 - rate) ** (number - 1) or number == 1
    for of in (number + 10, 10 * number, 100_000):
        wrong = max(1, round(rate * of))
        assert comb(of - wrong, number) / comb(of, number) <= 1 - confidence


def test_what_is_excluded_goes_with_what_was_drawn():
    """So many as were asked for exclude the share that was asked about; nothing drawn excludes nothing; all is all."""
    assert excluded_rate(4603, 10**9, 0.99) == pytest.approx(0.001, rel=1e-3)
    assert excluded_rate(0, 10, 0.99) is None
    assert excluded_rate(10, 10, 0.99) == excluded_rate(0, 0, 0.99) == 0.0
