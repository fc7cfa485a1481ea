"""Which logs an output stands for, and what of damage is none then."""

from __future__ import annotations

from lakeward.storage.storage import FileStatus
from lakeward.table.damaged_file import DamagedFile, DamageKind
from lakeward.table.file_system_view import sort_files
from lakeward.table.retired_logs import find_stood_for, without_gone, without_retired
from lakeward.table.timeline.timeline_reader import LogCompaction


def log(at: int, kind: str = "log") -> str:
    return f"fg-0_1-0-1_202601010000000{at:02}_1.{kind}.parquet"


def merge(at: int, *sources: int, is_own: bool = True) -> LogCompaction:
    return LogCompaction(f"202601010000000{at:02}", frozenset(map(log, sources)), ranks_last=True, is_own=is_own)


def stood_for(there: list[int], *compactions: LogCompaction) -> dict[str, str]:
    found = find_stood_for(map(log, there), compactions).by
    return {str(int(name.split("_")[2][-2:])): by[-2:] for name, by in found.items()}


def test_an_output_stands_for_what_it_merged():
    """Whether that is there or not; a log that came since is stood for by none."""
    assert stood_for([10, 11, 20, 21], merge(20, 10, 11)) == {"10": "20", "11": "20"}
    assert stood_for([20, 21], merge(20, 10, 11)) == {"10": "20", "11": "20"}


def test_nothing_is_stood_for_by_an_output_that_is_gone():
    """Keeps 1 of table/retired_logs: the log compaction had no output there, or lost it."""
    assert stood_for([10, 11, 21], merge(20, 10, 11)) == {}


def test_an_output_of_outputs_stands_for_their_sources():
    """The first log compaction is named, as of which readers did without them. Keeps 1 of table/retired_logs."""
    chain = (merge(20, 10, 11), merge(30, 20, 21))
    assert stood_for([20, 30], *chain) == {"10": "20", "11": "20", "20": "30", "21": "30"}
    assert stood_for([30], *chain) == {"10": "20", "11": "20", "20": "30", "21": "30"}
    assert stood_for([20, 21], *chain) == {"10": "20", "11": "20"}


def test_no_log_compaction_of_another_engine_stands_for_anything():
    """Also one that a later log compaction of Lakeward merged. Keeps 2 of table/retired_logs."""
    others = merge(20, 10, 11, is_own=False)
    assert stood_for([10, 11, 20], others) == {}
    assert stood_for([30], others, merge(30, 20, 21)) == {"20": "30", "21": "30"}


def test_a_log_that_is_gone_and_stood_for_is_no_damage():
    """Every other damage stays. Keeps 3 of table/retired_logs."""
    files = [sort_files("p", [FileStatus(log(at), 7, 0.0, False) for at in (20, 21)], native=True)]
    merged = {("p", "fg-0"): (merge(20, 10, 11),)}

    def damaged(at: int, kind: DamageKind) -> DamagedFile:
        return DamagedFile(f"p/{log(at)}", f"202601010000000{at:02}", kind)

    stays = (damaged(9, DamageKind.MISSING), damaged(21, DamageKind.EMPTY), damaged(11, DamageKind.OTHER_SIZE))
    damage = {"p": (damaged(10, DamageKind.MISSING), *stays)}
    assert without_gone(damage, files, merged) == {"p": stays}
    assert without_gone({"p": damage["p"][:1]}, files, merged) == {}
    assert without_gone(damage, files, {}) == damage


def test_what_has_retired_is_left_out():
    files = [sort_files("p", [FileStatus(log(at), 7, 0.0, False) for at in (10, 20)], native=True)]
    (left,) = without_retired(files, {f"p/{log(10)}"})
    assert [each.name.text for each in left.log_files] == [log(20)]
