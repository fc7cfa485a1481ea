import numpy as np
import pytest

from lakeward.write.flow.slots import assign_slots, numbers_into


def test_targets_are_spread_by_their_rows():
    """Each slot has work while there are targets enough, and large targets do not meet."""
    assert assign_slots({0: 10, 1: 10, 2: 1, 3: 1}, 2) == {0: 0, 1: 1, 2: 0, 3: 1}
    assert assign_slots({5: 0, 6: 0, 7: 0}, 2) == {5: 0, 6: 1, 7: 0}
    assert assign_slots({0: 3, 1: 100, 2: 3}, 8) == {1: 0, 0: 1, 2: 2}


@pytest.mark.parametrize("slots", [1, 2, 7, 64, 1000])
def test_each_slot_has_a_number(slots):
    """No two have the same one."""
    found = numbers_into(slots)

    assert len(np.unique(found)) == slots and (found >= 0).all()
