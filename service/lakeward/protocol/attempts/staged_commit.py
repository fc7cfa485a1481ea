"""What a staged commit says is in it: the files that belong to the table with it.

Touches: one staged file, reading only.
Keeps:   a commit that names a file of another instant, or one without a size, is not published.
"""

from __future__ import annotations

from lakeward.base.errors import BrokenFile, NotFound, OutcomeUnknown
from lakeward.format.file_name import parse_any_data_file
from lakeward.format.timeline.commit_metadata import read_commit_metadata
from lakeward.protocol.transition import END_BY_HAND, LAYOUT
from lakeward.storage.storage import Storage


def named_files(storage: Storage, staged: str, instant: str, *, extension: str, native: bool = False) -> dict[str, int]:
    """The files that a staged commit names, by path below its table, with their sizes. All of them are of `instant`.

    Args:
        extension: of base files.
        native: the table's version has native logs.
    """
    try:
        content = storage.read(staged)
    except NotFound as error:
        raise OutcomeUnknown(
            f"A commit intent was stated, and what was to be in the commit is gone: {staged}.",
            why="Another program removed the temporary files of an attempt that was about to be published.",
            remedy=END_BY_HAND,
        ) from error
    commit = read_commit_metadata(content, file=staged, layout=LAYOUT)
    files: dict[str, int] = {}
    for stats in commit.partition_to_write_stats.values():
        for stat in stats:
            for path, size in ((stat.path or "", stat.file_size_in_bytes), *(stat.cdc_stats or {}).items()):
                name = parse_any_data_file(path.rpartition("/")[2], native=native, extension=extension)
                if name is None or name.instant != instant or not size:
                    raise BrokenFile(
                        f"{staged} cannot be published.",
                        why=f"It names {path!r}, which is no file of {instant} with a size.",
                        remedy="Find out who wrote to the temporary files of a compaction; nothing was created.",
                    )
                files[path] = size
    return files
