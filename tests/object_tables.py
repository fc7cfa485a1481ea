"""Tables in object stores, for tests: brought there from a folder, and fetched back to be judged as any other table."""

from __future__ import annotations

from pathlib import Path

from lakeward.base.paths import join
from lakeward.storage.storage import Storage
from tests.memory_objects import MemoryObjects, Objects


def bring(folder: Path, storage: Storage, base: str) -> str:
    """Copy the table in `folder` to `base`. Its timeline is said to be in UTC: times of objects cannot be set, so no
    zone could be inferred from them."""
    for checksum in folder.rglob(".*.crc"):  # Hadoop's, of local files
        checksum.unlink()
    properties = folder / ".hoodie" / "hoodie.properties"
    lines = [line for line in properties.read_text().splitlines() if "timeline.timezone" not in line]
    properties.write_text("\n".join([*lines, "hoodie.table.timeline.timezone=UTC", ""]))
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            storage.create(join(base, str(path.relative_to(folder))), path.read_bytes())
    return base


def bring_back(folder: Path, objects: Objects, base: str) -> None:
    """What Hudi made of the table while it was fetched takes the place of what is in the store."""
    objects.data.clear()
    bring(folder, MemoryObjects(objects), base)


def fetch(storage: Storage, base: str, folder: Path) -> Path:
    """Copy the table at `base` into `folder`."""
    waiting = [base]
    while waiting:
        for status in storage.list(waiting.pop()):
            if status.is_folder:
                waiting.append(status.path)
                continue
            path = folder / status.path[len(base) + 1 :]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(storage.read(status.path))
    return folder
