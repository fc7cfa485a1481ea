"""Which tables a list shows, and what each is first of all.

Keeps 1, 2, 3 of daemon/web/table_list.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakeward.daemon.scheduling.table_state import TableState
from lakeward.daemon.status import TableStatus
from lakeward.daemon.web.pages import Pages
from lakeward.daemon.web.table_list import (
    TABLES_A_PAGE,
    ListQuery,
    TableSort,
    concerns,
    in_order,
    kind_of,
    kinds_of,
    numbers_of,
    page_of_tables,
    tables_of,
)
from lakeward.protocol.job_kind import JobKind
from lakeward.surface.table_kind import KIND_WORDS, TableKind
from tests.daemon.synthetic_status import NOW, backlog, running_job, service, table, varied_tables, waiting_job

LATE = backlog(oldest_unmerged_at=NOW - 90_000)


@pytest.mark.parametrize(
    ("shown", "kind"),
    [
        (table(state=TableState.PARKED, outlook={"unreadable": "The disk is gone."}), TableKind.UNREADABLE),
        (table(state=TableState.PARKED, backlog=LATE), TableKind.PARKED),
        (table(state=TableState.REFUSED), TableKind.REFUSED),
        (table(outlook={"refused": {JobKind.CLEAN: "x"}}, backlog=LATE), TableKind.REFUSED),
        (table(backlog=LATE), TableKind.LATE),
        (table(backlog=backlog(damaged_files=1)), TableKind.CONCERNED),
        (table(state=TableState.PAUSED), TableKind.HELD),
        (table(state=TableState.RUNNING, running=(waiting_job(),)), TableKind.WAITING),
        (table(state=TableState.RUNNING, running=(running_job(),)), TableKind.WORKING),
        (table(), TableKind.CALM),
        (table(state=TableState.DISABLED), TableKind.ELSEWHERE),
    ],
)
def test_what_a_table_is_first_of_all(shown: TableStatus, kind: TableKind) -> None:
    assert kind_of(shown, NOW) is kind


def test_each_table_is_of_one_kind() -> None:
    """The numbers of kinds add up to that of the tables, whatever the state; each kind has words of its own."""
    every = [table(str(state), state) for state in TableState]
    status = service(*varied_tables(), *every)
    assert sum(numbers_of(kinds_of(status.tables, NOW)).values()) == len(status.tables)
    for kind, number in numbers_of(kinds_of(status.tables, NOW)).items():
        assert len(tables_of(status.tables, ListQuery(kind=kind), NOW, kinds_of(status.tables, NOW))) == number
    assert len(set(KIND_WORDS.values())) == len(TableKind)
    worst = (TableKind.UNREADABLE, TableKind.PARKED, TableKind.REFUSED, TableKind.LATE, TableKind.CONCERNED)
    concerned = sum(number for kind, number in numbers_of(kinds_of(status.tables, NOW)).items() if kind in worst)
    assert concerned == sum(bool(concerns(each, NOW)) for each in status.tables)


def test_each_table_is_on_one_page() -> None:
    """In each order, and what needs attention is on the first page of the usual one."""
    many = [table(f"lake.table_{number:03}") for number in range(120)]
    status = service(*many, *varied_tables())
    for sort in TableSort:
        shown: list[str] = []
        for number in range(1, 10):
            page = page_of_tables(status, ListQuery(sort=sort, page=number))
            if page.page == number:
                assert page.first == len(shown) + 1
                shown += [each.name for each in page.shown]
                assert page.last == len(shown)
                assert len(page.shown) <= TABLES_A_PAGE
        assert sorted(shown) == sorted(each.name for each in status.tables), sort
    first, kinds = page_of_tables(status, ListQuery()), kinds_of(status.tables, NOW)
    assert list(first.shown) == in_order(status.tables, NOW, kinds)[:TABLES_A_PAGE]
    assert page_of_tables(status, ListQuery(page=99)).page == first.pages
    nothing = page_of_tables(status, ListQuery(search="no such table"))
    assert (nothing.first, nothing.last, nothing.matching, nothing.pages) == (0, 0, 0, 1)


@pytest.mark.parametrize(
    ("parameters", "query"),
    [
        ({}, ListQuery()),
        (
            {"kind": "late", "sort": "oldest", "page": "3", "search": " Ab "},
            ListQuery("Ab", TableKind.LATE, TableSort.OLDEST, 3),
        ),
        ({"kind": "none", "sort": "sideways", "page": "-1", "refresh": "x"}, ListQuery()),
        ({"page": "0"}, ListQuery()),
        ({"page": "9" * 30, "refresh": "off"}, ListQuery(refresh=False)),
    ],
)
def test_parameters_that_make_no_sense_are_taken_as_not_given(parameters: dict[str, str], query: ListQuery) -> None:
    assert ListQuery.parse(parameters) == query


def test_a_link_keeps_what_it_does_not_change() -> None:
    query = ListQuery("a&b", TableKind.LATE, TableSort.OLDEST, 3, refresh=False)
    assert query.link() == "?search=a%26b&kind=late&sort=oldest&page=3&refresh=off"
    assert query.link(kind=None, page=1, search="") == "?sort=oldest&refresh=off"
    assert ListQuery().link() == "?"


def test_a_page_says_which_tables_it_shows() -> None:
    """It has the kinds that there are with their numbers, the pages around it, and a form that keeps the rest."""
    pages = Pages()
    many = service(*(table(f"lake.table_{number:03}") for number in range(120)), *varied_tables())
    first = pages.all_tables(many)
    assert f">calm <small>{numbers_of(kinds_of(many.tables, NOW))[TableKind.CALM]}</small></a>" in first
    assert 'rel="next" href="?page=2#find"' in first and 'rel="prev"' not in first
    assert '<form class="search"' in first and 'name="refresh"' not in first
    held = pages.all_tables(many, ListQuery(refresh=False, kind=TableKind.CALM, sort=TableSort.NAME))
    assert '<form class="search" role="search" method="get" action="/">' in held
    assert '<input type="hidden" name="kind" value="calm">' in held
    assert '<input type="hidden" name="sort" value="name">' in held
    assert '<input type="hidden" name="refresh" value="off">' in held
    found = pages.all_tables(many, ListQuery(search="TABLE_007"))
    assert found.count('<td class="state">') == 1 and ">lake.table_007</a>" in found
    assert 'value="TABLE_007"' in found and '<a href="?">any name</a>' in found
    none = pages.all_tables(many, ListQuery(search="<script>", kind=TableKind.LATE))
    assert "has “&lt;script&gt;” in its name or path" in none and "<table" not in none


def test_names_and_paths_are_searched() -> None:
    """Each of what a list calls a table by is enough, in any case; a part of it, too."""
    found = replace(table("n4me"), served=replace(table("n4me", base_path="/p4th/x").served, shown_as="t1tle"))
    other = table("other", base_path="/elsewhere")
    for search in ("N4m", "P4TH/", "t1tL"):
        query = ListQuery(search=search)
        assert tables_of([found, other], query, NOW, kinds_of([found, other], NOW)) == [found], search


def test_what_cannot_be_decoded_is_searched_for() -> None:
    """A name from a file system may hold half of a character."""
    lake = [table("/lake/caf\udce9")]
    odd = replace(ListQuery(), search="caf\udce9")
    assert tables_of(lake, odd, NOW, kinds_of(lake, NOW))
    assert "%E9" in odd.link()
