"""The notice that partitions of a table are going to expire: the daemon gives it before the first run, so that an
operator sees what would go before it goes. The table keeps it.

    <table>/.hoodie/.lakeward/ttl/<by>-<keep in seconds>     the moment of the notice, JSON

A notice holds for what it says and for longer times; a shorter one, or another way to count, is noticed again.

Touches: that folder.
Keeps:   1. a notice that is there is never given again;
         2. what cannot be read is no notice.
"""

from __future__ import annotations

import json

from lakeward.base.errors import LakewardError
from lakeward.base.paths import join
from lakeward.services.ttl.plan.options import TtlOptions
from lakeward.storage.storage import Storage
from lakeward.table.table_config import hoodie_folder

_FOLDER = ".lakeward/ttl"


def noticed_at(storage: Storage, base_path: str, options: TtlOptions) -> float | None:
    """When what these options do was noticed first, in seconds since the epoch; None: it was not."""
    assert options.keep is not None
    folder, found = join(hoodie_folder(base_path), _FOLDER), []
    for each in storage.list(folder):
        by, _, keep = each.name.rpartition("-")
        if by != options.by or not keep.isdigit() or int(keep) > options.keep:
            continue
        try:
            found.append(float(json.loads(storage.read(join(folder, each.name)))["noticed_at"]))
        except (LakewardError, KeyError, TypeError, ValueError):
            continue
    return min(found, default=None)


def give_notice(storage: Storage, base_path: str, options: TtlOptions, *, now: float) -> None:
    assert options.keep is not None
    if noticed_at(storage, base_path, options) is not None:
        return
    folder = join(hoodie_folder(base_path), _FOLDER)
    storage.make_folder(folder)
    storage.create(join(folder, f"{options.by}-{int(options.keep)}"), json.dumps({"noticed_at": now}).encode())
