"""Whether an index was found to be wrong, so that nothing in Lakeward uses it.

    <table>/.hoodie/.lakeward/index/metadata.out-of-use      one sentence: what was found, and when
                                    record.out-of-use
                                    postgres.out-of-use
    <location>/<table>-<digest>-record.out-of-use            of one of Lakeward's, where nothing may be written below
    the
                                                             table (`index/record/record_options`)

Hudi's own writers know nothing of the file. It goes once the index is another one, or once a check of every row and
entry found nothing.

Touches: storage, reading one small file.
See:     `protocol/index_out_of_use`, which writes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeward.base.errors import NotFound, Refused
from lakeward.base.paths import join
from lakeward.index.index_type import LookupType
from lakeward.storage.storage import Storage
from lakeward.table.table_config import hoodie_folder

if TYPE_CHECKING:
    from lakeward.index.record.record_options import RecordOptions

FOLDER = ".lakeward/index"
"""Below `.hoodie`."""
_ENDING = ".out-of-use"


def out_of_use_path(base_path: str, type_: LookupType, record: RecordOptions | None = None) -> str:
    """
    Args:
        record: where Lakeward keeps indexes; of its own types it is needed.
    """
    if type_.is_own:
        assert record is not None, "it is the operator's word"
        if record.location is not None:
            return f"{record.folder(base_path)}-{type_}{_ENDING}"
    return join(hoodie_folder(base_path), FOLDER, f"{type_}{_ENDING}")


def why_out_of_use(
    storage: Storage, base_path: str, type_: LookupType, record: RecordOptions | None = None
) -> str | None:
    """What was found to be wrong, as a sentence; None where the index is in use."""
    try:
        return storage.read(out_of_use_path(base_path, type_, record)).decode("utf-8", "replace")
    except NotFound:
        return None


def check_in_use(storage: Storage, base_path: str, type_: LookupType, record: RecordOptions | None = None) -> None:
    """Raises `Refused`."""
    why = why_out_of_use(storage, base_path, type_, record)
    if why is None:
        return
    again = f"`lakeward index verify TABLE --type {type_} --all` puts it back in use, if that finds nothing."
    if type_.is_own:
        remedy = f"Run `lakeward index rebuild TABLE --type {type_}`, which rebuilds it from the rows. {again}"
    else:
        remedy = (
            "Run `lakeward index drop TABLE --type metadata` and `lakeward index build TABLE --type metadata --kind "
            "record`, or let a Hudi writer with the record index on write once, which rebuilds it. If that was done "
            f"already, {again}"
        )
    raise Refused(
        f"The {type_} index of the table is out of use.",
        why=why,
        remedy=f"{remedy} Until then use another index, such as simple.",
    )
