"""Which files a savepoint keeps, and when it is refused, by file groups as text.

base:T  log:T@C        a base file, a log and the completion time of its commit
pending:T              a compaction of the group, requested and not completed
replaced:T             by a commit that was requested then
"""

from __future__ import annotations

import pytest

from lakeward.base.errors import LakewardError, Refused, UsageError
from lakeward.format.file_name import LogFileName
from lakeward.services.savepoint.savepoint_plan import check_commit, check_uncleaned, files_to_keep, pinned_by
from lakeward.table.file_group import BaseFile, FileGroup, LogFile
from lakeward.table.file_system_view import GroupId, PartitionFiles, build_file_groups
from lakeward.table.past_slices import groups_as_of
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline.cleans import Clean
from lakeward.table.timeline.savepoints import Savepoint
from lakeward.table.timeline.timeline import Timeline
from tests.synthetic_table import TOKEN, completed, minute, pending, snapshot_of

GROUP = ("p", "g")


class Group:
    """One file group as the text says, and the timeline that goes with it."""

    def __init__(self, text: str) -> None:
        bases, logs, instants = [], [], {}
        self.replaced: dict[GroupId, str] = {}
        compactions: dict[GroupId, str] = {}
        for word in text.split():
            kind, _, times = word.partition(":")
            first, _, second = times.partition("@")
            time = minute(int(first))
            match kind:
                case "base":
                    name = f"g_{TOKEN}_{time}.parquet"
                    bases.append(BaseFile("g", time, name, "p", 1000, TOKEN))
                    instants[time] = completed(time, "commit")
                case "log":
                    log = LogFileName("g", time, 1, TOKEN)
                    logs.append(LogFile(log, "p", 10))
                    instants[time] = completed(time, "deltacommit", minute(int(second or first)))
                case "pending":
                    compactions[GROUP] = time
                    instants[time] = pending(time, "compaction")
                case "replaced":
                    self.replaced[GROUP] = time
                    instants[time] = completed(time, "replacecommit")
        # What the timeline starts with is older than anything of the group.
        self.timeline = Timeline(
            tuple(i for each in (completed(minute(0), "commit"), *instants.values()) for i in each)
        )
        self._files = (PartitionFiles("p", tuple(bases), tuple(logs), ()),)
        self._compactions = compactions

    def snapshot(self, *savepoints: Savepoint) -> TableSnapshot:
        view = build_file_groups(
            self._files,
            self.timeline,
            layout=2,
            archived={},
            pending_compactions=self._compactions,
            replaced=self.replaced,
        )
        return snapshot_of(
            view.groups,
            [],
            timeline=self.timeline,
            replaced=self.replaced,
            replaced_groups=view.replaced,
            savepointed={each.instant: frozenset(f"p/{name}" for name in each.files["p"]) for each in savepoints},
            files=self._files,
        )

    def groups(self, as_of: int) -> list[FileGroup]:
        return [group for group in groups_as_of(self.snapshot(), minute(as_of)) if isinstance(group, FileGroup)]


def file(word: str) -> str:
    kind, _, time = word.partition(":")
    at = minute(int(time))
    return f"g_{TOKEN}_{at}.parquet" if kind == "base" else LogFileName("g", at, 1, TOKEN).text


@pytest.mark.parametrize(
    ("text", "as_of", "kept"),
    [
        pytest.param("base:10", 10, "base:10", id="the newest"),
        pytest.param("base:10 base:20", 10, "base:10", id="an older one"),
        pytest.param("base:10 base:20", 15, "base:10", id="between two"),
        pytest.param("base:10", 9, "", id="not there yet"),
        pytest.param("base:10 log:11 log:12", 11, "base:10 log:11 log:12", id="whole slices, as Hudi"),
        pytest.param("base:10 log:11 base:20 log:21", 12, "base:10 log:11", id="nothing of later slices"),
        pytest.param("log:10 log:11", 11, "log:10 log:11", id="logs alone"),
        pytest.param("base:10 log:11 pending:20 log:21", 21, "log:21 base:10 log:11", id="under a pending compaction"),
        pytest.param("base:10 log:11 pending:20 log:21", 12, "base:10 log:11", id="before it"),
        pytest.param("base:10 log:15@25 base:20", 16, "base:10 log:15", id="a log that completed late"),
        pytest.param("base:10 replaced:20", 15, "base:10", id="replaced since"),
        pytest.param("base:10 replaced:20", 20, "", id="replaced by then"),
    ],
)
def test_files_that_are_kept(text: str, as_of: int, kept: str) -> None:
    """It is what a reader as of the commit, or after a restore to it, reads. Keeps 1 of
    services/savepoint/savepoint_plan."""
    assert files_to_keep(Group(text).groups(as_of), minute(as_of)).get("p", ()) == tuple(map(file, kept.split()))


def clean(at: int, *, done: bool = True, earliest: int | None = None, deleted: str = "") -> Clean:
    return Clean(
        minute(at), done, "" if earliest is None else minute(earliest), {"p": tuple(map(file, deleted.split()))}
    )


@pytest.mark.parametrize(
    ("text", "as_of", "cleans", "refused"),
    [
        pytest.param("base:10 log:20", 20, [], None, id="a commit"),
        pytest.param("base:10", 11, [], UsageError, id="no commit"),
        pytest.param("base:10 pending:20", 20, [], UsageError, id="a pending one"),
        pytest.param("base:10 base:20", 10, [clean(30, earliest=10)], None, id="the earliest retained"),
        pytest.param("base:10 base:20", 10, [clean(30, earliest=20)], Refused, id="before it"),
        pytest.param(
            "base:10 base:20", 10, [clean(30, earliest=20), clean(31, earliest=5)], Refused, id="before an earlier one"
        ),
        pytest.param("base:10", 10, [clean(30, done=False, earliest=10)], None, id="a pending clean of older files"),
        pytest.param("base:10 base:20", 10, [clean(30, done=False, earliest=20)], Refused, id="of its own"),
        pytest.param("base:10", 10, [clean(30, done=False)], Refused, id="of file versions"),
        pytest.param("base:10 base:20", 20, [clean(30, deleted="base:5")], None, id="a version before its own is gone"),
        pytest.param("base:10 log:25 base:30", 25, [clean(40, deleted="base:20")], Refused, id="its own is gone"),
        pytest.param("log:25 base:30", 25, [clean(26, deleted="log:22")], None, id="a log before its own"),
        pytest.param("base:30 log:25@35", 25, [clean(40, deleted="base:20")], Refused, id="nothing of then is left"),
        pytest.param("base:10 base:20", 20, [clean(15, deleted="base:12")], None, id="cleaned before it"),
        pytest.param("base:10 replaced:20", 20, [clean(30, deleted="base:15")], None, id="replaced by then"),
        pytest.param("base:10 log:18 replaced:20", 18, [clean(30, deleted="base:15")], Refused, id="replaced since"),
    ],
)
def test_what_can_be_savepointed(
    text: str, as_of: int, cleans: list[Clean], refused: type[LakewardError] | None
) -> None:
    """Nothing that a clean took, or may be about to take, and completed commits alone. Keeps 2 of
    services/savepoint/savepoint_plan."""
    group = Group(text)
    try:
        check_commit(group.timeline, minute(as_of), cleans)
        check_uncleaned(group.groups(as_of), group.replaced, minute(as_of), cleans, native=False)
    except LakewardError as error:
        assert refused is not None, error
        assert isinstance(error, refused), error
    else:
        assert refused is None


def test_a_clean_may_have_deleted_native_logs_alone() -> None:
    """On a table of version 10, of which they are slices; on one of an older version it is no data file."""
    group = Group("base:10 log:25 base:30")
    name = f"g_{TOKEN}_{minute(22)}_1.deletes.parquet"
    cleans = [Clean(minute(40), True, "", {"p": (name,)})]
    check_uncleaned(group.groups(25), group.replaced, minute(25), cleans, native=False)
    with pytest.raises(Refused, match=name):
        check_uncleaned(group.groups(25), group.replaced, minute(25), cleans, native=True)


def test_bytes_that_only_one_savepoint_keeps() -> None:
    """Slices are pinned whole. What readers read, and what another pins too, would be there without it; what is gone
    is reported."""
    group = Group("base:10 log:11 base:20 log:21 log:22 base:30 log:31")
    first = Savepoint(minute(11), "u", "", 0.0, {"p": frozenset(map(file, ("base:10", "log:11", "base:5")))})
    second = Savepoint(minute(21), "u", "", 0.0, {"p": frozenset(map(file, ("base:20", "log:21")))})
    again = Savepoint(minute(22), "u", "", 0.0, {"p": frozenset(map(file, ("base:10", "base:30", "log:31")))})

    def costs(*savepoints: Savepoint) -> list[tuple[int, int, int, int, int]]:
        found = pinned_by(savepoints, group.snapshot(*savepoints))
        return [(each.files, each.bytes, each.only_files, each.only_bytes, each.gone) for each in found]

    assert costs(first, second) == [(3, 1010, 2, 1010, 1), (2, 1010, 3, 1020, 0)]
    assert costs(first, again) == [(3, 1010, 0, 0, 1), (3, 2010, 0, 0, 0)]
