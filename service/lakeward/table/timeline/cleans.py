"""What the cleans on the active timeline say: as of when everything can still be read, and what they deleted.

Touches: storage, reading only: one read for each clean.
Keeps:   one that cannot be read is a `BrokenFile`, never a clean that deleted nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakeward.errors import NotFound
from lakeward.format.timeline.clean_metadata import read_clean_metadata
from lakeward.format.timeline.clean_plan import read_earliest_retained
from lakeward.format.timeline.instant import State, comparable_time
from lakeward.storage.storage import Storage, join
from lakeward.table.table_config import TableConfig, timeline_folder
from lakeward.table.timeline.instant_content import InstantContents
from lakeward.table.timeline.timeline import Timeline

UNDOES = "lakeward.undoes"
"""A key of the extra metadata of a completed clean: the clean whose files it brought back. Where another engine ended
it, and brought nothing back, it is not there."""


@dataclass(frozen=True, slots=True)
class Clean:
    instant: str
    is_completed: bool
    earliest_retained: str
    """The instant as of which, and after which, everything can be read; empty under the policy of file versions."""
    deleted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names of the files that it deleted, or could not, by partition path."""
    undoes: str | None = None
    """The clean whose files it brought back."""


def read_cleans(storage: Storage, base_path: str, config: TableConfig, timeline: Timeline) -> tuple[Clean, ...]:
    """The cleans, oldest first, the pending ones among them."""
    contents = InstantContents(storage, base_path, config, timeline)
    folder = timeline_folder(base_path, config)
    requested = {i.time: i for i in timeline.instants if i.action == "clean" and i.state is State.REQUESTED}
    found = []
    for instant in (*timeline.completed, *timeline.pending):
        if instant.action != "clean":
            continue
        is_completed = instant.state is State.COMPLETED
        source = instant if is_completed else requested.get(instant.time)
        if source is None:  # its plan is gone, so it may delete anything
            found.append(Clean(instant.time, False, ""))
            continue
        try:
            data = contents.read(source.file_name)
        except NotFound:
            continue  # archived or rolled back since
        file = join(folder, source.file_name)
        if not is_completed:
            found.append(Clean(instant.time, False, read_earliest_retained(data, file=file)))
            continue
        metadata = read_clean_metadata(data, file=file)
        deleted = {
            path: tuple(name.rpartition("/")[2] for name in (*each.deleted, *each.failed))
            for path, each in metadata.partitions.items()
        }
        undoes = metadata.extra_metadata.get(UNDOES)
        found.append(Clean(instant.time, True, metadata.earliest_retained, deleted, undoes))
    return tuple(sorted(found, key=lambda clean: comparable_time(clean.instant)))
