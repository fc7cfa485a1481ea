"""An index of Hudi's that was found to be wrong: said once, until it is put back in use."""

from pathlib import Path

import pytest

from lakeward.commit.index_out_of_use import put_in_use, take_out_of_use
from lakeward.errors import Refused
from lakeward.index.index_type import IndexType
from lakeward.index.out_of_use import check_in_use, why_out_of_use
from lakeward.storage.local import LocalStorage

STORAGE = LocalStorage()


def test_the_first_reason_stays(tmp_path: Path) -> None:
    """Keeps of commit/index_out_of_use: a second check finds other keys, and what was found first is not lost."""
    base = str(tmp_path)
    check_in_use(STORAGE, base, IndexType.METADATA)
    assert not put_in_use(STORAGE, base, IndexType.METADATA)
    assert take_out_of_use(STORAGE, base, IndexType.METADATA, "k1 is missing.")
    assert not take_out_of_use(STORAGE, base, IndexType.METADATA, "k2 is missing.")
    assert why_out_of_use(STORAGE, base, IndexType.METADATA) == "k1 is missing."
    assert why_out_of_use(STORAGE, base, IndexType.SIMPLE) is None
    with pytest.raises(Refused, match=r"out of use. k1 is missing. Run `lakeward index rebuild TABLE --type metadata`"):
        check_in_use(STORAGE, base, IndexType.METADATA)
    assert put_in_use(STORAGE, base, IndexType.METADATA)
    check_in_use(STORAGE, base, IndexType.METADATA)
