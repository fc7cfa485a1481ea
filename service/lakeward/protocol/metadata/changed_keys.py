"""What the targets of a write did to keys, read from the files in which they say it (`write/handles/key_changes`).

Touches: storage, reading those files.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from lakeward.base.errors import BrokenFile
from lakeward.protocol.metadata.write_changes import ChangedKeys
from lakeward.storage.storage import Storage, is_of_storage


def read_changed_keys(storage: Storage, changed: ChangedKeys) -> Iterator[tuple[pa.Array, pa.Array]]:
    """Keys, and the file group that each is in now, null where it is gone; batch by batch. Raises `BrokenFile` and
    `NotFound`."""
    try:
        with storage.open_input(changed.path) as source:
            reader = pa.ipc.open_file(source)
            for number in range(reader.num_record_batches):
                batch = reader.get_batch(number)
                yield batch.column("key").cast(pa.string()), batch.column("file_id").cast(pa.string())
    except (pa.ArrowException, OSError, KeyError) as error:
        if is_of_storage(error):
            raise
        raise BrokenFile(
            f"The changed keys in {changed.path} cannot be read.",
            why=f"{error}.",
            remedy="Run the command again; nothing was published.",
        ) from error
