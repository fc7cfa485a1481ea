"""Which files a savepoint keeps, and when it is refused, by file groups as text.

base:T  log:T@C        a base file, a log and the completion time of its commit
pending:T              a compaction of the group, requested and not completed
replaced:T             by a commit that was requested then
"""

from __future__ import annotations

import pytest

from lakeward.errors import LakewardError, Refused, UsageError
from lakeward.format.file_name import LogFileName
from lakeward.plan.savepointing import check_commit, check_uncleaned, files_to_keep, pinned_by
from lakeward.table.file_group import BaseFile, LogFile
from lakeward.table.file_system_view import FileSystemView, GroupId, PartitionFiles, build_file_groups
from lakeward.table.timeline.cleans import Clean
from lakeward.table.timeline.savepoints import Savepoint
from lakeward.table.timeline.timeline import Timeline
from tests.synthetic_table import TOKEN, completed, minute, pending

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
                    bases.append(BaseFile("g", time, name, f"p/{name}", 1000, TOKEN))
                    instants[time] = completed(time, "commit")
                case "log":
                    log = LogFileName("g", time, 1, TOKEN)
                    logs.append(LogFile(log, f"p/{log.text}", 10))
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
        self._files = [PartitionFiles("p", tuple(bases), tuple(logs), ())]
        self._compactions = compactions
        self.sizes = {"p": {f.name: f.size for f in bases} | {f.name.text: f.size for f in logs}}

    def view(self, as_of: int) -> FileSystemView:
        replaced = {group: at for group, at in self.replaced.items() if at <= minute(as_of)}
        return build_file_groups(
            self._files,
            self.timeline,
            layout=2,
            archived={},
            pending_compactions=self._compactions,
            replaced=replaced,
        )


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
    """It is what a reader as of the commit, or after a restore to it, reads. Keeps 1 of plan/savepointing."""
    assert files_to_keep(Group(text).view(as_of), minute(as_of)).get("p", ()) == tuple(map(file, kept.split()))


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
    """Nothing that a clean took, or may be about to take, and completed commits alone. Keeps 2 of plan/savepointing."""
    group = Group(text)
    try:
        check_commit(group.timeline, minute(as_of), cleans)
        check_uncleaned(group.view(as_of), group.replaced, minute(as_of), cleans)
    except LakewardError as error:
        assert refused is not None, error
        assert isinstance(error, refused), error
    else:
        assert refused is None


def test_bytes_that_only_one_savepoint_keeps() -> None:
    """What readers read, and what another keeps too, would be there without it; what is gone is told."""
    group = Group("base:10 log:11 base:20 log:21 base:30 log:31")
    first = Savepoint(minute(11), "u", "", 0.0, {"p": frozenset(map(file, ("base:10", "log:11", "base:5")))})
    second = Savepoint(minute(21), "u", "", 0.0, {"p": frozenset(map(file, ("base:20", "log:21", "log:11")))})
    newest = Savepoint(minute(31), "u", "", 0.0, {"p": frozenset(map(file, ("base:30", "log:31")))})

    found = pinned_by([first, second, newest], group.view(31), group.sizes)

    assert [(each.files, each.bytes, each.only_files, each.only_bytes, each.gone) for each in found] == [
        (3, 1010, 1, 1000, 1),
        (3, 1020, 2, 1010, 0),
        (2, 1010, 0, 0, 0),
    ]
