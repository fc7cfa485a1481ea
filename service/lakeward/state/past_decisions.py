"""What was decided for file groups before: a row for each choice that was followed by another one, or whose file group
vanished.

    decisions         one row a file group: what was decided last, since when it was chosen, and its figures
    past_decisions    what was chosen before, with the last figures that it had

A decision whose figures alone change is the same choice: a table that is written to would leave a row for each file
group and look. Of choices older than two weeks one a day stays for each file group, the last one.

Touches: the database, through the connection of its caller.
Keeps:   1. what was decided at a time is the choice that was made last before it, or nothing where the file group had
            vanished by then;
         2. its rows are bounded, whatever tables do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    bindparam,
    cast,
    func,
    insert,
    literal,
    select,
    true,
    tuple_,
)

from lakeward.base.quantities import DAY_SECONDS
from lakeward.state.records import DecisionRecord, FileGroupKey
from lakeward.state.store_tables import decisions, past_decisions

_OF_DECISION = ("partition_path", "file_id", "choice", "reason", "instead_of", "instant", "numbers", "decided_at")
_COLUMNS = ["table_name", *_OF_DECISION, "chosen_at", "ended_at", "group_gone"]
CHOSEN_AT = func.coalesce(decisions.c.chosen_at, decisions.c.decided_at)
"""A release without that column does not write it."""


class KnownDecision(NamedTuple):
    """What of a decision says whether the next one differs."""

    digest: str
    choice: tuple[str, str, str | None, str | None]
    chosen_at: float


def choice_of(decision: DecisionRecord | Row[*tuple[Any, ...]]) -> tuple[str, str, str | None, str | None]:
    return decision.choice, decision.reason, decision.instead_of, decision.instant


def known_decisions(connection: Connection, table: str) -> dict[FileGroupKey, KnownDecision]:
    """What was decided last for the file groups of a table."""
    named = (decisions.c[name] for name in ("partition_path", "file_id", "choice", "reason", "instead_of", "instant"))
    query = select(*named, decisions.c.digest, CHOSEN_AT.label("since")).where(decisions.c.table_name == table)
    return {
        (row.partition_path, row.file_id): KnownDecision(row.digest, choice_of(row), row.since)
        for row in connection.execute(query)
    }


def keep_past(connection: Connection, table: str, ended: Mapping[FileGroupKey, bool], at: float) -> None:
    """Remember what is decided now for these file groups, before it is replaced or deleted.

    Args:
        ended: of each, whether it has vanished.
    """
    if not ended:
        return
    here = and_(
        decisions.c.table_name == table,
        decisions.c.partition_path == bindparam("partition"),
        decisions.c.file_id == bindparam("file"),
    )
    gone = bindparam("gone", type_=past_decisions.c.group_gone.type)
    rows = [
        {"partition": partition_path, "file": file_id, "gone": is_gone}
        for (partition_path, file_id), is_gone in ended.items()
    ]
    connection.execute(insert(past_decisions).from_select(_COLUMNS, _of_now(literal(at), gone).where(here)), rows)


def keep_all(connection: Connection, at: float) -> None:
    """The same of all file groups: whether they are there after that is not known."""
    connection.execute(insert(past_decisions).from_select(_COLUMNS, _of_now(literal(at), true())))


def _of_now(ended_at: ColumnElement[float], gone: ColumnElement[bool]) -> Select[Any]:
    return select(decisions.c.table_name, *(decisions.c[name] for name in _OF_DECISION), CHOSEN_AT, ended_at, gone)


def decided_at(connection: Connection, table: str, at: float) -> tuple[DecisionRecord, ...]:
    """What was decided then, by partition path and file id."""
    past = past_decisions
    place = (past.c.partition_path, past.c.file_id)
    before = and_(past.c.table_name == table, past.c.chosen_at <= at)
    newest = select(*place, func.max(past.c.chosen_at)).where(before).group_by(*place)
    rows = connection.execute(
        select(past).where(before, tuple_(*place, past.c.chosen_at).in_(newest)).order_by(past.c.id)
    )
    found = {(row.partition_path, row.file_id): row for row in rows}
    then = {
        key: record_of(row, row.chosen_at) for key, row in found.items() if not (row.group_gone and row.ended_at <= at)
    }
    now = select(decisions, CHOSEN_AT.label("since")).where(decisions.c.table_name == table, at >= CHOSEN_AT)
    then |= {(row.partition_path, row.file_id): record_of(row, row.since) for row in connection.execute(now)}
    return tuple(then[key] for key in sorted(then))


def known_since(connection: Connection, table: str) -> float | None:
    """The time of the first choice of a table that is known; None where none is."""
    firsts = (
        connection.execute(select(func.min(column)).where(of.c.table_name == table)).scalar()
        for column, of in ((past_decisions.c.chosen_at, past_decisions), (CHOSEN_AT, decisions))
    )
    return min((first for first in firsts if first is not None), default=None)


def record_of(row: Row[Any], chosen_at: float) -> DecisionRecord:
    return DecisionRecord(**{name: getattr(row, name) for name in _OF_DECISION}, chosen_at=chosen_at)


def thinned(old: ColumnElement[bool]) -> ColumnElement[bool]:
    """True for old rows but the last one of a day of each file group."""
    past = past_decisions
    group = (past.c.table_name, past.c.partition_path, past.c.file_id)
    last = select(func.max(past.c.id)).where(old).group_by(*group, cast(past.c.chosen_at / DAY_SECONDS, BigInteger))
    return and_(old, past.c.group_gone.is_(False), past.c.id.not_in(last))
