"""Which files a savepoint of a commit keeps, and whether they are all still there: slices as of then in, names out.

As Hudi 1.2 has it, of each file group that was not replaced by then

    the newest slice at or before the commit    base file and all of its logs, those of later commits too

and, which Hudi leaves out and a restore to the commit needs:

    the slices under it, down to a base file    while a compaction of it is pending, readers merge both
    logs of commits up to it in later slices    they completed after a compaction that was requested after the commit

What a clean took since cannot be kept any more. A clean says as of when everything can still be read (E), and under
the policy of file versions nothing; then the names of what it deleted say it.

    clean pending, its E absent or after the commit         refused: it may be about to delete what would be kept
    newest completed clean with its E after the commit      refused, as by Hudi
    clean since the commit, without E, that deleted of a slice which was the commit's newest    refused

Touches: nothing.
Keeps:   1. a file that a reader as of the commit reads is among the names, or the savepoint is refused;
         2. a commit that is not completed on the active timeline, or was savepointed before, is refused.
Source:  SavepointActionExecutor (Hudi 1.0.2 and 1.2.0).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lakeward.base.errors import Refused, UsageError
from lakeward.base.paths import join
from lakeward.base.quantities import format_duration, format_size
from lakeward.format.file_name import parse_any_data_file
from lakeward.format.timeline.instant import State, is_before
from lakeward.table.file_group import FileGroup, FileSlice
from lakeward.table.file_system_view import GroupId
from lakeward.table.past_slices import pinned_slices
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline.cleans import Clean
from lakeward.table.timeline.savepoints import Savepoint
from lakeward.table.timeline.timeline import Timeline


def files_to_keep(groups: Iterable[FileGroup], instant: str) -> dict[str, tuple[str, ...]]:
    """Names by partition path, for the groups as of the instant."""
    kept: dict[str, list[str]] = {}
    for group in groups:
        names = list(_names_of(group, instant))
        if names:
            kept.setdefault(group.partition_path, []).extend(names)
    return {path: tuple(names) for path, names in sorted(kept.items())}


def check_commit(timeline: Timeline, instant: str, cleans: Iterable[Clean]) -> None:
    """Raises `UsageError` for what is no completed commit of the active timeline, `Refused` for one that was cleaned,
    or may be."""
    found = timeline.find_write(instant)
    if found is None or found.state is not State.COMPLETED:
        state = "not on the active timeline" if found is None else f"{found.state.name.lower()}, not completed"
        raise UsageError(
            f"There is no savepoint of {instant}.",
            why=f"A savepoint is of a completed commit, delta commit or replace commit; this one is {state}.",
            remedy="`lakeward inspect` shows the commits.",
        )
    if any(i.time == instant and i.action == "savepoint" and i.state is State.COMPLETED for i in timeline.instants):
        raise UsageError(
            f"{instant} has a savepoint already.",
            why="A commit has one.",
            remedy="`lakeward savepoint list` shows it.",
        )
    cleans = tuple(cleans)
    for clean in cleans:
        if not clean.is_completed and (not clean.earliest_retained or is_before(instant, clean.earliest_retained)):
            raise Refused(
                f"{instant} cannot be savepointed: clean {clean.instant} is pending.",
                why="It may be about to delete files that the savepoint would keep.",
                remedy="Let it finish: any Hudi writer that cleans, or its cleaner, does so.",
            )
    if (why := why_cleaned(instant, cleans)) is not None:
        raise _cleaned(instant, why)


def check_uncleaned(
    groups_then: Iterable[FileGroup],
    replaced: Mapping[GroupId, str],
    instant: str,
    cleans: Iterable[Clean],
    *,
    native: bool,
) -> None:
    """The same by what the cleans since the commit deleted, where they do not say as of when all can be read. Raises
    `Refused`.

    Args:
        native: the table's version has native logs.
    """
    if (why := why_file_gone(groups_then, replaced, instant, cleans, native=native)) is not None:
        raise _cleaned(instant, why)


def why_cleaned(instant: str, cleans: Iterable[Clean]) -> str | None:
    """Why the table cannot be read as of the commit any more, as the completed cleans say. None where they do not."""
    newest = max((clean.earliest_retained for clean in cleans if clean.is_completed), default="")
    if newest and is_before(instant, newest):
        return f"A clean kept what can be read as of {newest} and after; this is before it."
    return None


def why_file_gone(
    groups_then: Iterable[FileGroup],
    replaced: Mapping[GroupId, str],
    instant: str,
    cleans: Iterable[Clean],
    *,
    native: bool,
) -> str | None:
    """The same by the files that completed cleans since the commit deleted, but for those cleans that say as of when
    all can be read."""
    groups = {(group.partition_path, group.file_id): group for group in groups_then}
    for clean in cleans:
        if not clean.is_completed or clean.earliest_retained or is_before(clean.instant, instant):
            continue
        for path, names in clean.deleted.items():
            for name in names:
                parsed = parse_any_data_file(name, native=native)
                if parsed is None or is_before(instant, parsed.instant):
                    continue
                at = replaced.get((path, parsed.file_id))
                if at is not None and not is_before(instant, at):
                    continue
                group = groups.get((path, parsed.file_id))
                newest_kept = None if group is None else next(iter(_at_or_before(group, instant)), None)
                if newest_kept is None or is_before(newest_kept.base_instant, parsed.instant):
                    return f"Clean {clean.instant} deleted {path}/{name}, which it may need."
    return None


@dataclass(frozen=True, slots=True)
class Pinned:
    """A savepoint and what it costs."""

    savepoint: Savepoint
    files: int
    bytes: int
    only_files: int
    """Files of slices that no reader of the newest state reads and no other savepoint pins; what the cleaner's policy
    retains for a while yet counts too."""
    only_bytes: int
    gone: int
    """Files that it names and that are not there."""

    def pins(self, slice_: FileSlice) -> bool:
        """Whether it names a file of the slice."""
        named = self.savepoint.files.get(slice_.partition_path, ())
        return any(file.file_name in named for file in slice_.files)

    def sentence(self, now: float) -> str:
        """Why it keeps a file, and how to end that."""
        instant, since = self.savepoint.instant, format_duration(max(0.0, now - self.savepoint.made_at))
        return (
            f"Savepoint {instant} pins it since {since}, with {format_size(self.only_bytes)} that only it keeps; "
            f"`lakeward savepoint delete TABLE {instant}` ends that."
        )


def pinned_by(savepoints: Sequence[Savepoint], snapshot: TableSnapshot) -> list[Pinned]:
    """In the order of the savepoints; the snapshot is of the whole table."""
    sizes = {path: size for files in snapshot.files for path, size in files.sizes}
    only: dict[str, list[FileSlice]] = {}
    for slice_, by in pinned_slices(snapshot):
        if len(by) == 1:
            only.setdefault(by[0], []).append(slice_)
    found = []
    for savepoint in savepoints:
        named = [join(path, name) for path, names in savepoint.files.items() for name in names]
        there = [path for path in named if path in sizes]
        alone = only.get(savepoint.instant, ())
        found.append(
            Pinned(
                savepoint,
                files=len(named),
                bytes=sum(sizes[path] for path in there),
                only_files=sum(len(slice_.files) for slice_ in alone),
                only_bytes=sum(slice_.bytes for slice_ in alone),
                gone=len(named) - len(there),
            )
        )
    return found


def _names_of(group: FileGroup, instant: str) -> Iterator[str]:
    past = _at_or_before(group, instant)
    for slice_ in FileGroup(group.partition_path, group.file_id, past).read_slices:
        yield from (file.file_name for file in slice_.files)
    for slice_ in group.slices[: len(group.slices) - len(past)]:
        yield from (log.name.text for log in slice_.log_files if not is_before(instant, log.instant))


def _at_or_before(group: FileGroup, instant: str) -> tuple[FileSlice, ...]:
    return tuple(slice_ for slice_ in group.slices if not is_before(instant, slice_.base_instant))


def _cleaned(instant: str, why: str) -> Refused:
    return Refused(
        f"{instant} cannot be savepointed: it cannot be read completely any more.",
        why=why,
        remedy="Choose a later commit.",
    )
