"""A file system with bind mounts, as far as listings show them: to mount takes root."""

from __future__ import annotations

from lakeward.storage.local import LocalStorage
from lakeward.storage.storage import FileStatus


class Mounted(LocalStorage):
    def __init__(self, mounts: dict[str, str]) -> None:
        """`mounts` says of empty folders which other folder is mounted there, too."""
        super().__init__()
        self._mounts = mounts

    def list(self, folder: str) -> list[FileStatus]:
        for place, source in self._mounts.items():
            if folder == place or folder.startswith(f"{place}/"):
                inner = super().list(source + folder.removeprefix(place))
                return [status._replace(path=place + status.path.removeprefix(source)) for status in inner]
        identities = {place: self.stat(source) for place, source in self._mounts.items()}
        return [
            status._replace(identity=there.identity) if (there := identities.get(status.path)) is not None else status
            for status in super().list(folder)
        ]
