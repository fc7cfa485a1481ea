"""An index that was found to be wrong: said once, until it is put back in use."""

from pathlib import Path

import pytest

from lakeward.base.errors import Refused
from lakeward.index.index_type import OWN_TYPES, IndexType
from lakeward.index.out_of_use import check_in_use, why_out_of_use
from lakeward.index.record.record_options import RECORD_OPTIONS, RecordOptions
from lakeward.protocol.index_out_of_use import put_in_use, take_out_of_use
from lakeward.storage.local import LocalStorage

STORAGE = LocalStorage()


def test_the_first_reason_stays(tmp_path: Path) -> None:
    """Keeps of protocol/index_out_of_use: a second check finds other keys, and what was found first is not lost."""
    base = str(tmp_path)
    check_in_use(STORAGE, base, IndexType.METADATA)
    assert not put_in_use(STORAGE, base, IndexType.METADATA)
    assert take_out_of_use(STORAGE, base, IndexType.METADATA, "k1 is missing.")
    assert not take_out_of_use(STORAGE, base, IndexType.METADATA, "k2 is missing.")
    assert why_out_of_use(STORAGE, base, IndexType.METADATA) == "k1 is missing."
    assert why_out_of_use(STORAGE, base, IndexType.SIMPLE) is None
    with pytest.raises(Refused, match=r"out of use. k1 is missing. Run `lakeward index drop TABLE --type metadata`"):
        check_in_use(STORAGE, base, IndexType.METADATA)
    assert put_in_use(STORAGE, base, IndexType.METADATA)
    check_in_use(STORAGE, base, IndexType.METADATA)


@pytest.mark.parametrize("type_", OWN_TYPES)
def test_an_index_of_lakeward_elsewhere(tmp_path: Path, type_: IndexType) -> None:
    """Nothing is written below a table where nothing may be; what is said of one type is said of no other."""
    base, elsewhere = tmp_path / "lake" / "orders", RecordOptions(str(tmp_path / "indexes"))
    base.mkdir(parents=True)
    (other,) = set(OWN_TYPES) - {type_}
    assert take_out_of_use(STORAGE, str(base), type_, "k1 is missing.", elsewhere)
    assert list(base.iterdir()) == []
    check_in_use(STORAGE, str(base), other, elsewhere)
    with pytest.raises(Refused, match=rf"k1 is missing. Run `lakeward index rebuild TABLE --type {type_}`"):
        check_in_use(STORAGE, str(base), type_, elsewhere)
    assert put_in_use(STORAGE, str(base), type_, elsewhere)
    assert take_out_of_use(STORAGE, str(base), type_, "k1 is missing.", RECORD_OPTIONS)
    assert (base / f".hoodie/.lakeward/index/{type_}.out-of-use").exists()
