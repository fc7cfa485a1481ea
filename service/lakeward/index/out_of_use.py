"""Whether an index that Hudi keeps was found to be wrong, so that nothing of ours goes by it.

    <table>/.hoodie/.lakeward/index/metadata.out-of-use      one sentence: what was found, and when

Hudi's own writers know nothing of the file. It goes with the partition of the metadata table, or once a check of every
row and entry found nothing.

Touches: storage, reading one small file.
See:     `commit/index_out_of_use`, which writes it.
"""

from __future__ import annotations

from lakeward.errors import NotFound, Refused
from lakeward.index.index_type import IndexType
from lakeward.storage.storage import Storage, join
from lakeward.table.table_config import hoodie_folder

FOLDER = ".lakeward/index"
"""Below `.hoodie`."""


def out_of_use_path(base_path: str, type_: IndexType) -> str:
    return join(hoodie_folder(base_path), FOLDER, f"{type_}.out-of-use")


def why_out_of_use(storage: Storage, base_path: str, type_: IndexType) -> str | None:
    """What was found to be wrong, as a sentence; None where the index is in use."""
    try:
        return storage.read(out_of_use_path(base_path, type_)).decode("utf-8", "replace")
    except NotFound:
        return None


def check_in_use(storage: Storage, base_path: str, type_: IndexType) -> None:
    """Raises `Refused`."""
    why = why_out_of_use(storage, base_path, type_)
    if why is not None:
        raise Refused(
            f"The {type_} index of the table is out of use.",
            why=why,
            remedy="Run `lakeward index rebuild TABLE --type metadata`, and let a Hudi writer with the record index on "
            "write once. If it was built anew already, `lakeward index verify --all` puts it back in use. Until then "
            "go by the simple index.",
        )
