"""`lakeward index tee TABLE` and `lakeward index cut-over TABLE`: an index on trial, and in the place of another.

Touches: stdout, stderr; the folder of `index/tee`; the table and both indexes, reading only.
Keeps:   1. nothing is chosen that cannot be asked, or in which keys have another scope;
         2. writers are cut over only after so many clean commits in a row as were asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from lakeward.base.clock import SystemClock
from lakeward.base.errors import TryLater, UsageError
from lakeward.cli.configured_table import ConfiguredTable, ZonedTable
from lakeward.cli.index.group import type_option, work_watched
from lakeward.cli.index.own_index import DatabaseOption, indexes_of
from lakeward.cli.index.view import render_teed, teed_as_json
from lakeward.cli.result import PROBLEMS_EXIT, Result
from lakeward.cli.terminal import Rendered
from lakeward.index.index_type import IndexType, LookupType
from lakeward.index.key_changes.table_commits import check_can_be_followed, newest_change
from lakeward.index.tee import Tee, cut_back, read_tee
from lakeward.index.tee import cut_over as cut_over_of
from lakeward.protocol.index.choices import publish_choice
from lakeward.services.indexing.judge.tee_check import TeeCheck, TeeMoment, compare_all
from lakeward.write.index_choice import choose_index

if TYPE_CHECKING:
    from lakeward.cli.configured_table import ConfiguredTable
    from lakeward.table.snapshot import TableSnapshot


def tee(
    opened: ZonedTable,
    primary: Annotated[
        LookupType | None, type_option(help="Begin: the index that writes use unless they name one.")
    ] = None,
    shadow: Annotated[
        LookupType | None, type_option(help="Begin: the index that is updated too, and compared with the primary.")
    ] = None,
    end: Annotated[bool, typer.Option("--end", help="End the trial; writes go on with the primary index.")] = False,
    forget: Annotated[
        bool,
        typer.Option(
            "--forget", help="End the trial and forget the choice: writes choose the index from the table, as before."
        ),
    ] = False,
    url: DatabaseOption = None,
) -> Result:
    """Try a second index (the shadow) beside the one that writes use (the primary): each write updates both, and their
    answers are compared.

    Begin with --primary and --shadow; the table remembers them, and every `lakeward write` uses the primary. Without
    options it compares both for the keys of each commit since, of any writer, and records the result; exit 6 if the
    shadow was wrong. `lakeward index cut-over` makes the shadow the primary.
    """
    begins = primary is not None or shadow is not None
    if begins + end + forget > 1 or (primary is None) != (shadow is None):
        raise UsageError(
            "--primary without --shadow, or options that exclude each other.",
            remedy="Give --primary and --shadow, or --end, or --forget, or none of them to compare.",
        )
    held = read_tee(opened.storage, opened.base_path)
    if primary is not None and shadow is not None:
        snapshot = opened.snapshot()
        check_can_be_followed(snapshot)
        _check_go_together(opened, snapshot, primary, shadow, url)
        newest = newest_change(snapshot.timeline)
        choice = Tee(primary=primary, shadow=shadow, through=None if newest is None else newest.completed)
        held = publish_choice(opened.storage, opened.base_path, held, choice)
    elif end or forget:
        if held.primary is None:
            raise UsageError("No index is chosen for the table's writes.", remedy="There is nothing to end.")
        choice = Tee() if forget else Tee(primary=held.primary)
        held = publish_choice(opened.storage, opened.base_path, held, choice)
    elif held.shadow is not None:
        held, found = _compared(opened, held, url)
        return _result(opened, held, found)
    return _result(opened, held)


def cut_over(
    opened: ZonedTable,
    after_clean: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="For how many commits in a row, up to the newest, the shadow must have been right."
        ),
    ] = None,
    back: Annotated[bool, typer.Option("--back", help="Make the earlier primary the primary again.")] = False,
    url: DatabaseOption = None,
) -> Result:
    """Make the shadow index the primary, and the primary the shadow; or back, in one step.

    Commits since the last comparison are compared first. Refused with exit 2 if fewer commits in a row were clean than
    required. Writes under way finish with the index that they began with; the other one covers what it lacks.
    """
    if back == (after_clean is not None):
        raise UsageError(
            "Neither or both of --after-clean and --back are given.",
            remedy="Give --after-clean N to cut over, or --back to go back.",
        )
    held = read_tee(opened.storage, opened.base_path)
    if after_clean is not None and held.shadow is not None:
        held, found = _compared(opened, held, url)
        if found.left:
            raise TryLater(
                f"{found.left:,} commits are still to be compared.",
                why="Another process compares them, or chose other indexes.",
                remedy="Run the command again.",
            )
    choice = cut_back(held) if after_clean is None else cut_over_of(held, after_clean=after_clean)
    held = publish_choice(opened.storage, opened.base_path, held, choice)
    return _result(opened, held)


def _check_go_together(
    opened: ConfiguredTable, snapshot: TableSnapshot, primary: LookupType, shadow: LookupType, url: str | None
) -> None:
    """Open both, and the primary as a write would. Raises what that raises, `UsageError` and `Refused`."""
    if shadow is IndexType.HBASE:
        raise UsageError(
            "The index in HBase is not tried beside another one.",
            why="It is read only, so that writes could not update it.",
            remedy="Ask both once: `lakeward index compare TABLE --type hbase --type TYPE`.",
        )
    if primary is shadow:
        raise UsageError("The two indexes are the same.", remedy="Name another --shadow.")
    said = choose_index(snapshot.config, None, None, (), primary=primary).type
    if said is not primary:
        raise UsageError(
            f"The table's writes cannot use the {primary} index.",
            why=f"The table requires {said} (hoodie.index.type), and Hudi's writers hold to that.",
            remedy="Name that one as the primary.",
        )
    with _both(opened, primary, shadow, url) as moment_of:
        moment = moment_of(snapshot)
        if moment.primary.is_global is not moment.shadow.is_global:
            raise UsageError(
                f"The {primary} index and the {shadow} index do not go together.",
                why="One of them is global (it finds keys in all partitions), the other is not, so their answers "
                "rightly differ.",
                remedy="Build Lakeward's index with or without --by-partition, as the other one is.",
            )


@contextmanager
def _both(
    opened: ConfiguredTable, primary: LookupType, shadow: LookupType, url: str | None
) -> Iterator[Callable[[TableSnapshot], TeeMoment]]:
    with ExitStack() as databases:
        first, second = (databases.enter_context(indexes_of(opened, url).reader(kind)) for kind in (primary, shadow))
        yield lambda snapshot: TeeMoment(snapshot, first(snapshot), second(snapshot))


def _compared(opened: ConfiguredTable, held: Tee, url: str | None) -> tuple[Tee, TeeCheck]:
    assert held.primary is not None and held.shadow is not None, "there is a tee"
    with _both(opened, held.primary, held.shadow, url) as moment_of, work_watched() as on_step:
        return compare_all(
            opened.storage,
            opened.base_path,
            lambda: moment_of(opened.snapshot()),
            held,
            clock=SystemClock(),
            on_commit=partial(on_step, "compared {} of {} commits"),
        )


def _result(opened: ConfiguredTable, held: Tee, found: TeeCheck | None = None) -> Result:
    found = found or TeeCheck()
    return Rendered(
        document=teed_as_json(opened.base_path, held, found),
        render=partial(render_teed, held, found),
        exit_code=0 if all(commit.is_clean for commit in found.commits) else PROBLEMS_EXIT,
    )
