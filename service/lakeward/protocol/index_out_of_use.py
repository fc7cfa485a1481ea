"""An index is taken out of use, and put back: one small file that `index/out_of_use` reads.

Touches: that file and its folder. No lock is needed: the file is created once or deleted once, nothing else is changed
         with it, and what began to use the index before goes on.
Keeps:   the first reason stays until the index is put back in use.
"""

from __future__ import annotations

from lakeward.base.errors import AlreadyExists
from lakeward.base.paths import parent
from lakeward.index.index_type import LookupType
from lakeward.index.out_of_use import out_of_use_path
from lakeward.index.record.record_options import RecordOptions
from lakeward.protocol.creation import create
from lakeward.storage.storage import Storage


def take_out_of_use(
    storage: Storage, base_path: str, type_: LookupType, why: str, record: RecordOptions | None = None
) -> bool:
    """Make Lakeward use the index no more; False where that was so already.

    Args:
        why: a sentence for operators.
        record: where Lakeward keeps indexes; of its own types it is needed.
    """
    path = out_of_use_path(base_path, type_, record)
    storage.make_folder(parent(path))
    try:
        create(storage, path, why.encode())
    except AlreadyExists:
        return False
    return True


def put_in_use(storage: Storage, base_path: str, type_: LookupType, record: RecordOptions | None = None) -> bool:
    """The index is right, or is gone and will be rebuilt; False where it was in use."""
    return storage.delete(out_of_use_path(base_path, type_, record))
