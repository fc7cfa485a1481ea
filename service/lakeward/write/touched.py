"""The file groups that another instant touched, as its files on the timeline say.

    a completed write      what it wrote, and what it replaced
    a pending replacement  what its profile says that it will write; of a clustering what its plan takes

Touches: storage, reading timeline files.
Keeps:   an instant that cannot be read is an error: it may have touched anything.
Source:  ConcurrentOperation (Hudi 1.2)
"""

from __future__ import annotations

from lakeward.base.errors import NotFound
from lakeward.format.timeline.commit_metadata import read_commit_metadata
from lakeward.format.timeline.instant import Instant, State, instant_file_name
from lakeward.format.timeline.replace_metadata import read_clustered_groups
from lakeward.table.table_config import TableConfig
from lakeward.table.timeline.instant_content import InstantContents
from lakeward.write.conflicts import Touched


def read_touched(contents: InstantContents, config: TableConfig, instant: Instant) -> Touched:
    """Raises `BrokenFile`."""
    if instant.state is State.COMPLETED:
        return _written(contents, config, instant.file_name)
    planned = read_clustered_groups(contents.read(requested := _name(config, instant, State.REQUESTED)), file=requested)
    if planned or instant.action == "clustering":
        return Touched(frozenset(planned))
    try:
        inflight = _name(config, instant, State.INFLIGHT)
        return _written(contents, config, inflight) if contents.read(inflight) else Touched(frozenset())
    except NotFound:
        return Touched(frozenset())  # it does not know yet what it will replace, and will meet ours


def _written(contents: InstantContents, config: TableConfig, name: str) -> Touched:
    metadata = read_commit_metadata(contents.read(name), file=name, layout=config.layout)
    return Touched(metadata.file_groups, metadata.operation_type)


def _name(config: TableConfig, instant: Instant, state: State) -> str:
    return instant_file_name(instant.time, instant.action, state, config.layout)
