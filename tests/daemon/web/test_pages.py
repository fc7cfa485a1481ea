from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from lakeward.base import quantities
from lakeward.base.quantities import format_number, format_share, format_size
from lakeward.config.job_card import card_of
from lakeward.config.job_summary import summarise_job
from lakeward.daemon.scheduling.demand import Demand
from lakeward.daemon.scheduling.table_state import ParkedGroup, TableState
from lakeward.daemon.status import (
    ConfigStatus,
    JobEnd,
    JobPage,
    ServicePhase,
    SparkState,
    SparkStatus,
    TablePage,
    TableStatus,
)
from lakeward.daemon.web.pages import (
    GROUPS_A_PAGE,
    TEMPLATES,
    GroupQuery,
    Pages,
    figures,
    format_moment,
    job_link,
    job_of_link,
    meter,
    page_of,
    table_link,
    table_of_link,
    why,
)
from lakeward.daemon.web.signs import CHOICE_SIGNS, END_SIGNS, STATE_SIGNS, Tone, format_duration
from lakeward.daemon.web.table_list import ListQuery, concerns, in_order, kinds_of
from lakeward.index.index_type import IndexType
from lakeward.index.key_changes.table_commits import Staleness
from lakeward.index.tee import Tee
from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.job_report import JobFigures
from lakeward.services.compaction.plan.decision import Choice, Reason
from lakeward.services.indexing.index_memory import IndexMemory, IndexStatus, TeeStatus
from lakeward.state.records import CostRecord, ExaminationRecord, MonthBesideHudi, MonthlyCost
from tests.daemon.synthetic_status import (
    LIMITATION,
    NOW,
    backlog,
    busy_detail,
    decision,
    detail,
    examination,
    groups,
    hostile_tables,
    job,
    job_page,
    running_job,
    service,
    table,
    varied_tables,
    waiting_job,
)

VOID = {"meta", "link", "br", "input", "rect", "circle", "path"}


class Page(HTMLParser):
    """What a page is made of; complains where tags do not close."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        assert self._open == [], f"left open: {self._open}"

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, f"{tag} closes something else"

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def pages() -> Pages:
    return Pages()


def test_every_state_end_and_choice_has_a_sign_of_its_own_shape():
    """Colour repeats what a word says already, and shapes differ where words are few."""
    assert STATE_SIGNS.keys() == set(TableState)
    assert END_SIGNS.keys() == set(JobEnd)
    assert CHOICE_SIGNS.keys() == set(Choice)
    assert len({sign.word for sign in STATE_SIGNS.values()}) == len(STATE_SIGNS)
    drawn = set(re.findall(r'it\.shape == "(\w+)"', (TEMPLATES / "signs.html").read_text())) | {"minus"}
    assert {sign.shape for signs in (STATE_SIGNS, END_SIGNS, CHOICE_SIGNS) for sign in signs.values()} == drawn
    by_tone = {(sign.tone, sign.shape) for sign in STATE_SIGNS.values()}
    assert len(by_tone) >= len(STATE_SIGNS) - 1, "only running and recovering look the same, and say it"


def test_the_page_of_all_tables_says_everything_about_them(pages: Pages):
    """Name, state, backlog, last job, progress of the running one, what is next and why."""
    text = Page(pages.all_tables(service(*varied_tables(), limitations=(LIMITATION,)))).text

    for shown in varied_tables():
        assert shown.name in text
        assert STATE_SIGNS[shown.state].word in text
        if not shown.running:
            assert shown.outlook.reason in text
    assert "42%" in text
    assert "12,345 logs, 46.9 GiB" in text
    assert "3 h 3 min of 1 h" in text
    assert LIMITATION.what in text
    assert LIMITATION.remedy in text


def test_a_job_that_waits_is_shown_apart(pages: Pages):
    """For what, and since when; it is counted at the top, and among the table's jobs it does not stand as one that
    works. What it did so far stays, in the figures that the command line shows."""
    shown = table("orders", TableState.RUNNING, running=(waiting_job(),))

    text = Page(pages.all_tables(service(shown))).text
    assert "1 waiting" in text.replace("\u00a0", " ")
    assert "Waiting , began 12 s ago : the table lock .hoodie/.locks/lock is held by spark-7" in text.replace(
        "\u00a0", " "
    )
    merged = running_job()[1].merged
    assert merged is not None and merged.sentence in text
    of_table = Page(pages.one_table(detail(shown, ended=()), GroupQuery()))
    assert "waiting" in of_table.text and "Waiting , began" in of_table.text
    assert "waiting" not in Page(pages.all_tables(service(*varied_tables()))).text.lower().replace(
        "waiting to be merged", ""
    )


def test_what_the_doctor_found(pages: Pages):
    """The worst first, each with where it is, evidence, and the dry run before the command; of many places the first,
    and how many there are. A remedy that several places share stands once."""
    shown = table("orders", examination=examination("danger", "warning"))
    html = pages.one_table(detail(shown), GroupQuery())
    text = Page(html).text.replace("\u00a0", " ")
    assert "danger Looked 2 h ago , 3 patterns looked for" in text
    assert text.index("Pattern 0 is there") < text.index("Pattern 1 is there")
    assert "7 places clean 0 file <0> is gone Bring it back. try lakeward compact /data/orders --dry-run" in text
    assert text.count("Bring it back.") == 2 and "clean 5" not in text and "2 more in lakeward doctor" in text
    assert "nothing found" not in text
    assert "Rows are lost. Hudi 1.2.0, tried: A query gives each row." in text
    assert concerns(shown, NOW)[:2] == ("1 danger", "1 warning")


@pytest.mark.parametrize(
    ("looked", "words"),
    [
        (None, "Not looked yet"),
        (ExaminationRecord(NOW - 900), "Not looked yet"),
        (ExaminationRecord(NOW - 900, problem="It is away."), "Could not look, 15 min ago : It is away."),
        (examination(problem="It is away.", tried_at=NOW - 60), "Could not look since, tried 1 min ago : It is away."),
    ],
    ids=["elsewhere", "new", "never", "not-since"],
)
def test_what_the_doctor_did_not_see_is_never_well(pages: Pages, looked: ExaminationRecord | None, words: str):
    """It says when it was tried, and why that failed."""
    html = pages.one_table(detail(table("orders", examination=looked)), GroupQuery())
    section = html[html.index('id="doctor"') :].partition("</section>")[0]
    assert words in Page("<section " + section + "</section>").text.replace("\u00a0", " ")
    assert "nothing found" not in section and f'class="sign {Tone.GOOD}"' not in section


def test_what_the_doctor_saw_only_in_part_is_not_well(pages: Pages):
    """A check that failed is named, with its reason; what an option looks for is not."""
    seen = examination()
    document = {**(seen.document or {}), "healthy": False}
    document["unseen"] = [*document["unseen"], {"code": "orphan-files", "why": "No.", "by_choice": False}]
    html = pages.one_table(detail(table("orders", examination=replace(seen, document=document))), GroupQuery())
    text = Page(html).text
    assert "not all seen" in text and "Could not be looked for: orphan-files . No." in text
    assert "doubled-keys" not in text and "nothing found" not in text
    assert "nothing found" in Page(pages.one_table(detail(table("orders")), GroupQuery())).text


def test_a_job_has_its_card_and_months_their_sums(pages: Pages):
    """The same lines as the command line has; a job that did not pay back says so before its card is opened."""
    cost = CostRecord(
        *("j1", "orders", "compaction", "2027-01", NOW - 170, "committed", 30.0, 4.0),
        predicted_seconds=2.0,
        cpu_seconds=3.0,
        saved_seconds_a_day=86400.0,
        detail={"reasons": {"log-ratio": 2}, "written": {"t9": 1}},
    )
    month = MonthlyCost("orders", "compaction", "2027-01", 12, 1, 3600.0, 60.0, 5 << 30, 2 << 30, 1234.5, 2345.6, None)
    paid = card_of(cost, (), now=NOW)
    text = shown_text(pages, detail(ended=(job(),), cards={"j1": paid}, months=(month,)))
    for label, words in paid.lines():
        assert f"{label} {words}" in text
    assert "Did not pay back" not in text
    assert "2027-01 compaction 12 1 failed 1 h 5.0 GiB 2.0 GiB 1,234 2,346" in text
    again = replace(cost, job_id="j2", ended_at=NOW - 169, detail={"rewritten": {"t9": 1}})
    unpaid = card_of(cost, (again,), now=NOW)
    assert "Did not pay back." in shown_text(pages, detail(ended=(job(),), cards={"j1": unpaid}))


def test_months_stand_beside_hudi_s_default(pages: Pages):
    """What it would have taken, and what was saved or lost; neither where the replay is off by more than 15%."""
    month = MonthBesideHudi(
        *("orders", "2027-01", 13, 1, 1 << 30, 5 << 30, 100.0, 500.0, 20.0, 10.0, 3e9, 4e9),
        counted_bytes=100,
        modelled_bytes=110,
    )
    text = shown_text(pages, detail(beside_hudi=(month,)))
    assert "2027-01 13 of 14 1.0 GiB 5.0 GiB 120 510 390 1.10" in text
    assert "Hudi's default would have taken 390 core-seconds more in 13 days of 2027-01" in text
    dearer = replace(month, job_seconds=1000.0)
    assert "510 -510 1.10" in (text := shown_text(pages, detail(beside_hudi=(dearer,))))
    assert "Hudi's default would have taken 510 core-seconds less" in text
    unsure = shown_text(pages, detail(beside_hudi=(replace(month, modelled_bytes=120),)))
    assert "510 not known 1.20" in unsure and "would have taken" not in unsure
    assert "510 not known –" in shown_text(pages, detail(beside_hudi=(replace(month, counted_bytes=0),)))


def shown_text(pages: Pages, of: TablePage) -> str:
    return " ".join(Page(pages.one_table(of, GroupQuery())).text.replace("\u00a0", " ").split())


def ordered(tables: Sequence[TableStatus]) -> list[TableStatus]:
    return in_order(tables, NOW, kinds_of(tables, NOW))


def test_what_needs_attention_stands_first():
    """What cannot be read, a missed objective, then what is stopped, then what is odd, then what works, then what is
    not this daemon's."""
    names = [shown.name for shown in ordered(varied_tables())]

    assert names[:2] == ["broken", "clickstream.events_raw"]
    assert set(names[2:4]) == {"inventory", "legacy_cow"}
    assert names[4] == "sessions"
    assert set(names[-2:]) == {"archive_2019", "suppliers"}
    assert names == [shown.name for shown in ordered(varied_tables()[::-1])]


def test_what_cannot_be_read_stands_before_all_others():
    """Three tables that cannot be read come before 300 that are parked, refused, past their objectives or fine, and
    whatever holds them beside."""
    late = backlog(oldest_unmerged_at=NOW - 90_000)
    many = [
        *(table(f"parked_{number}", TableState.PARKED, backlog=late) for number in range(100)),
        *(table(f"refused_{number}", TableState.REFUSED, backlog=late) for number in range(100)),
        *(table(f"breached_{number}", backlog=late) for number in range(90)),
        *(table(f"fine_{number}") for number in range(10)),
    ]
    unreadable = [
        table(f"zz_{state}", state, backlog=None, last_job=None, outlook={"unreadable": "The disk is gone."})
        for state in (TableState.BACKING_OFF, TableState.PAUSED, TableState.REFUSED)
    ]

    shown = ordered([*many, *unreadable])

    assert {each.name for each in shown[:3]} == {each.name for each in unreadable}
    assert [each.name for each in shown[-10:]] == [f"fine_{number}" for number in range(10)]
    assert concerns(unreadable[0], NOW) == ("cannot be read",)


def test_a_refused_table_promises_nothing(pages: Pages):
    """It does not say that everything is merged, nor when a recovery comes."""
    refused = table(
        "t",
        TableState.REFUSED,
        "Refused: its timeline is damaged.",
        backlog=backlog(log_files=0, superseded_log_files=0, oldest_unmerged_at=None),
        outlook={"next_action": "next try", "next_action_at": NOW + 1620},
    )
    for html in (pages.all_tables(service(refused)), pages.one_table(detail(refused, holds=()), GroupQuery())):
        text = Page(html).text
        assert "everything is merged" not in text
        assert "not known: refused" in text
        assert "Next try in 27 min" in text


def test_anchors_are_beside_the_logs_that_were_merged(pages: Pages):
    """The same number for the table and over all; nothing where there is none."""
    for html in (pages.all_tables(service(table("t"))), pages.one_table(detail(table("t")), GroupQuery())):
        assert "superseded, 40.0 MiB, 3 anchors" in Page(html).text.replace("\xa0", " ")
    without = table("t", backlog=backlog(anchors=0))
    assert "anchor" not in Page(pages.all_tables(service(without))).text


def test_a_table_in_shadow_misses_nothing(pages: Pages):
    """Its age is shown without a meter, and is no concern."""
    shadow = table("t", TableState.SHADOW, backlog=backlog(oldest_unmerged_at=NOW - 90_000))
    page = Page(pages.all_tables(service(shadow)))

    assert concerns(shadow, NOW) == ()
    assert "1 d 1 h in shadow, no objective" in page.text
    assert not [svg for svg in page.all("svg") if "meter" in (svg.get("class") or "")]


def test_a_job_that_did_nothing_is_neither_green_nor_red():
    """It has neither the tick of what was done nor the cross of what failed."""
    sign = END_SIGNS[JobEnd.NOTHING]

    assert sign.tone is Tone.QUIET
    assert sign.shape not in (END_SIGNS[JobEnd.COMMITTED].shape, END_SIGNS[JobEnd.FAILED].shape)


def test_pages_write_numbers_as_commands_do(pages: Pages):
    """Bytes, counts, durations and shares have one form each, which `lakeward.base.quantities` has; only blanks do not
    break."""
    assert figures(job().figures).replace("\u00a0", " ") == summarise_job(job().figures)
    text = Page(pages.all_tables(service(*varied_tables()))).text
    for words in (format_number(12_345), format_size(48_000 * 2**20), quantities.format_duration(11_000)):
        assert words in text
    assert format_share(running_job()[1].ratio) in text
    assert not re.findall(r"\d %", text)


def test_a_running_job_says_when_it_is_given_up(pages: Pages):
    """A job that was given up says that, too."""
    text = Page(pages.all_tables(service(table(running=(running_job(),))))).text
    assert "given up in 36 min" in text.replace("\u00a0", " ")
    job, progress = running_job()
    late = replace(job, deadline=NOW - 300), progress
    text = Page(pages.all_tables(service(table(running=(late,))))).text
    assert "did not answer by its deadline , 5 min ago" in text.replace("\u00a0", " ")


def test_nearer_to_the_objective_stands_before():
    """Among equals."""
    late, early = (table(name, backlog=backlog(oldest_unmerged_at=NOW - age)) for name, age in (("b", 900), ("a", 60)))

    assert ordered([early, late]) == [late, early]


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        (table(), ()),
        (table(state=TableState.PARKED), ("parked, nothing is done",)),
        (table(backlog=backlog(oldest_unmerged_at=NOW - 3660)), ("objective missed by 1\u00a0min",)),
        (table(backlog=backlog(damaged_files=1)), ("1 damaged file",)),
        (table(outlook={"scan_overdue": True}), ("not polled for two intervals",)),
        (table(outlook={"parked_groups": (ParkedGroup(("", "g"), "x", NOW),)}), ("1 file group parked",)),
        (
            table(last_job=job(service="plan-expiry", result="failed")),
            ("last plan expiry: failed",),
        ),
        (table(last_job=job(result="temporary")), ()),
        (table(outlook={"refused": {JobKind.COMPACTION: "x"}}), ("refused: compaction",)),
        (table(state=TableState.REFUSED, last_job=job(result="refused")), ("refused, nothing is done",)),
    ],
)
def test_concerns_are_few_words_about_what_is_wrong(shown, words):
    """Nothing is said where all is well, or where it mends itself."""
    assert concerns(shown, NOW) == words


def test_a_page_is_whole_html_and_needs_nothing_from_elsewhere(pages: Pages):
    """It has one stylesheet, one script and one icon of our own, nothing of these in the page, and no style attribute;
    every table has a caption and scopes."""
    for html in (
        pages.all_tables(service(*varied_tables())),
        pages.all_tables(service()),
        pages.one_table(busy_detail(), GroupQuery()),
        pages.one_job(job_of("j1")),
        pages.one_job(job_of("j2", spark=None)),
        pages.message("No such page", "x"),
    ):
        page = Page(html)
        assert html.startswith("<!doctype html>") or html.lstrip().startswith("<!doctype html>")
        assert page.all("html")[0]["lang"] == "en"
        assert not re.sub(r'<script src="/live\.js\?v=\w{12}" defer></script>', "", html).count("<script")
        assert not page.all("img")
        assert all("style" not in attributes for _, attributes in page.tags)
        assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
        links = [attributes["href"] for attributes in (*page.all("link"), *page.all("a"))]
        assert all(link is not None and (link[0] in "/?#") and not link.startswith("//") for link in links)
        assert len(page.all("caption")) == len(page.all("table"))
        assert all("scope" in heading for heading in page.all("th"))
        assert len(page.all("h1")) == 1
        assert page.all("main")


def test_times_are_relative_with_utc_behind_them(pages: Pages):
    """People read the one, programs the other."""
    html = pages.all_tables(service(table()))

    assert f'<time datetime="2027-01-15T07:57:10Z" title="2027-01-15 07:57:10 UTC">2{chr(160)}min ago</time>' in html


def test_a_page_is_made_again_until_a_reader_holds_it_still(pages: Pages):
    """A script does it, and without scripts a meta tag."""
    fresh = Page(pages.all_tables(service()))
    held = Page(pages.all_tables(service(), ListQuery(refresh=False)))

    assert {"http-equiv": "refresh", "content": "5"} in fresh.all("meta")
    assert len(fresh.all("noscript")) == len(fresh.all("script")) == 1 and not held.all("script")
    assert not [meta for meta in held.all("meta") if meta.get("http-equiv") == "refresh"]
    held_table = pages.one_table(detail(), GroupQuery(page=2, refresh=False))
    assert "http-equiv" not in held_table
    others = [a["href"] or "" for a in Page(held_table).all("a") if (a["href"] or "").startswith("?")]
    assert len([link for link in others if "refresh=off" not in link]) == 1, "the link that begins it again"


def test_strangers_words_stay_words(pages: Pages):
    """No name of a table, partition or file, no error and no reason becomes a tag or an attribute."""
    evil = "<script>alert(1)</script>\"'onload=x {{ 7 * 7 }} {% raw %}"
    everything = detail(
        hostile_tables()[0],
        facts=(),
        groups=tuple(replace(group, partition_path=evil, file_id=evil) for group in groups(3)),
        ended=(job(error=evil, instant=evil),),
    )
    for html in (
        pages.all_tables(service(*hostile_tables(), name=evil, config=ConfigStatus(evil, NOW, problem=evil))),
        pages.one_table(everything, GroupQuery(find=evil)),
        pages.one_job(job_of(record=job(error=evil, instant=evil, table=evil, holder=evil), table=None)),
        pages.message(evil, evil),
    ):
        page = Page(html)
        assert all((tag["src"] or "").startswith("/live.js?") for tag in page.all("script"))
        assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
        assert "alert(1)" in page.text
        assert "49" not in page.text.replace("149", "")


@pytest.mark.parametrize("name", ["orders", "/data/lake/a", "s3://b/x y?z#1%2F", "表/ü", "..", "half\udce4", "a&b=c;d"])
def test_the_link_of_a_table_leads_to_its_name(name: str):
    """Whatever the name is; a base path is one, too."""
    link = table_link(name)

    assert re.fullmatch(r"/tables/[A-Za-z0-9_.~%-]*", link)
    assert table_of_link(link) == name


def test_a_table_says_all_about_its_file_groups(pages: Pages):
    """The page has sizes, the decision, and its sentence."""
    text = Page(pages.one_table(detail(groups=groups(4)), GroupQuery())).text

    for group in groups(4):
        assert group.file_id in text
        assert group.decision is not None
        assert why(group.decision) in text
    assert "Its merge gave a wrong result." in text
    assert "parked in" not in text
    assert "4 file groups checked, all right" in text
    assert "The disk was full. Free space on it." in text


def with_indexes(memory: IndexMemory) -> TableStatus:
    return table("orders", remembered={JobKind.INDEX: memory})


def test_a_table_says_how_far_its_indexes_are_behind(pages: Pages):
    """One of Lakeward's by commits, bytes and time, with how full its buckets are; those that Hudi keeps are not
    behind. Of the cache of filters it says how many files it has, and how many could not be read. How far a build
    is stands above. Why it cannot be known stands there instead, and with the tables."""
    text = Page(pages.one_table(detail(), GroupQuery())).text
    assert "record : A build has read 12 of 46 file groups, the last one 5 min ago." in text
    of_hudi, _, own = text.partition("Found Covers Behind Full")[2].partition("record")
    below, _, others = own.partition("postgres")
    outside, _, cache = others.partition("bloom")
    assert "keys no" in of_hudi and "keys no" in below and "keys 3 commits" in outside
    assert "34 of 37 base files; 2 could not be read 1 commit, 390.6 KiB, since 1 min; taken in soon" in cache
    assert of_hudi.rstrip().endswith("no no buckets")
    assert "no 31%, fullest bucket 52%" in below
    assert "3 commits, 4.8 MiB, since 11 min; not brought up to date, index.update is false no buckets" in outside

    broken = with_indexes(IndexMemory((IndexStatus(IndexType.RECORD, problem="The manifest is broken."),)))
    assert "not known : The manifest is broken." in Page(pages.one_table(detail(broken), GroupQuery())).text
    assert "index record cannot be read" in Page(pages.all_tables(service(broken))).text


def test_a_table_says_what_was_found_of_an_index_on_trial(pages: Pages):
    """How many commits and keys were compared, what waits and why; one that was wrong stands with the tables, too. A
    choice that cannot be read is reported."""
    tee = Tee(3, IndexType.METADATA, IndexType.RECORD, compared=12, keys=3400, clean=12)
    right = with_indexes(
        IndexMemory(tee=TeeStatus(tee, Staleness(2, 10, 60.0), against="The index record is out of use."))
    )
    text = Page(pages.one_table(detail(right), GroupQuery())).text
    assert "Writes use the index metadata; record is on trial: Compared 12 commits (3,400 keys)" in text
    assert "12 clean in a row. 2 commits are still to be compared. The index record is out of use." in text
    assert "on trial" not in Page(pages.all_tables(service(right))).text

    wrong = with_indexes(IndexMemory(tee=TeeStatus(replace(tee, wrong=1, keys_wrong=5, clean=0))))
    assert (
        "record is on trial: it was wrong . Compared 12 commits"
        in Page(pages.one_table(detail(wrong), GroupQuery())).text
    )
    assert "index record, on trial, was wrong" in Page(pages.all_tables(service(wrong))).text

    broken = with_indexes(IndexMemory(tee=TeeStatus(Tee(), against="The file is damaged.")))
    reported = Page(pages.one_table(detail(broken), GroupQuery())).text
    assert "The choice of the table's indexes cannot be read. The file is damaged." in reported


def test_file_groups_of_a_table_that_leaves_nothing_to_compact(pages: Pages):
    """None of them waits for a decision, though none has one."""
    copied = table("t", outlook={"demand": Demand(0, no_work="copy-on-write")})
    undecided = tuple(replace(group, decision=None, hold=None) for group in groups(2))
    text = Page(pages.one_table(detail(copied, groups=undecided), GroupQuery())).text
    assert text.count("There is nothing to compact.") == 2 and "It came or changed" not in text
    assert "It came or changed" in Page(pages.one_table(detail(groups=undecided), GroupQuery())).text


def test_a_table_that_was_not_scanned_yet_has_a_page(pages: Pages):
    """With nothing known, nothing is claimed."""
    nothing = table("t", backlog=None, last_job=None, write_amplification=None, outlook={"scanned_at": None})
    empty = detail(nothing, facts=(), plans=(), groups=(), ended=(), events=(), holds=(), planned_at=None)

    text = Page(pages.one_table(empty, GroupQuery())).text

    assert "not read yet" in text
    assert "It came or changed" not in Page(pages.one_table(replace(empty, groups=groups(5)), GroupQuery())).text
    assert "No plan was made yet." in text


def test_a_job_of_an_end_that_we_do_not_know_is_shown(pages: Pages):
    """A newer release may share the store."""
    strange = job(result="sublimated")

    assert "not known" in Page(pages.one_table(detail(ended=(strange,)), GroupQuery())).text
    assert "ended" in Page(pages.all_tables(service(table(last_job=strange)))).text


def test_a_decision_that_lacks_its_numbers_still_has_a_reason():
    """An older release may have stored it."""
    assert why(decision(numbers={})) == "FULL: log-ratio"
    assert why(decision(Choice.NONE, Reason.NO_LOGS)).startswith("NONE: there are no logs")


def test_file_groups_come_a_page_at_a_time_and_each_is_on_one():
    """No group is lost or shown twice by any order."""
    all_groups = groups(GROUPS_A_PAGE * 2 + 7)
    for sort in ("group", "base_bytes", "log_bytes", "logs", "slices", "decision"):
        for descending in (False, True):
            shown = [
                group
                for page in (1, 2, 3)
                for group in page_of(all_groups, GroupQuery(sort=sort, descending=descending, page=page)).shown
            ]
            assert sorted(group.file_id for group in shown) == [group.file_id for group in all_groups]
    sizes = [group.backlog.log_bytes for group in page_of(all_groups, GroupQuery()).shown]
    assert sizes == sorted(sizes, reverse=True)


def test_file_groups_are_filtered_by_their_decision():
    """The numbers of the other choices stay those of all groups."""
    page = page_of(groups(50), GroupQuery(choice="NONE"))

    assert page.matching == 20
    assert {group.decision.choice for group in page.shown if group.decision} == {Choice.NONE}
    assert dict(page.numbers) == {"FULL": 10, "LOG": 10, "NONE": 20, "undecided": 10}
    assert all(group.decision is None for group in page_of(groups(50), GroupQuery(choice="undecided")).shown)


@pytest.mark.parametrize(
    ("parameters", "query"),
    [
        ({}, GroupQuery()),
        ({"sort": "group"}, GroupQuery(sort="group", descending=False)),
        ({"sort": "group", "order": "desc"}, GroupQuery(sort="group", descending=True)),
        ({"sort": "__class__", "order": "x", "choice": "<b>", "page": "-1"}, GroupQuery()),
        ({"page": "²"}, GroupQuery()),
        ({"page": "9" * 5000}, GroupQuery()),
        ({"page": "3", "choice": "LOG", "refresh": "off"}, GroupQuery(page=3, choice="LOG", refresh=False)),
    ],
)
def test_parameters_that_make_no_sense_are_taken_as_not_given(parameters, query):
    """A page is made of whatever comes."""
    assert GroupQuery.parse(parameters) == query


def test_a_page_beyond_the_last_is_the_last():
    """Groups go away while an operator reads."""
    page = page_of(groups(60), GroupQuery(page=99))

    assert (page.page, page.first, page.last) == (2, 51, 60)
    assert (page_of((), GroupQuery()).first, page_of((), GroupQuery()).last) == (0, 0)


def test_a_link_keeps_what_it_does_not_change():
    """Sorting begins on the first page again, and the same column turns round."""
    query = GroupQuery(sort="logs", choice="LOG", page=4, refresh=False)

    assert GroupQuery.parse(dict(part.split("=") for part in query.link()[1:].split("&"))) == query
    assert "order=asc" in query.sort_link("logs")
    assert "order=desc" in query.sort_link("base_bytes")
    assert "page=" not in query.sort_link("group")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (0.012, "12 ms"),
        (1, "1 s"),
        (8.14, "8.1 s"),
        (9.99, "10 s"),
        (42.7, "42 s"),
        (60, "1 min"),
        (3599, "59 min"),
        (3600, "1 h"),
        (7500, "2 h 5 min"),
        (86_400, "1 d"),
        (86_460, "1 d"),
        (273_600, "3 d 4 h"),
    ],
)
def test_durations_are_said_as_people_say_them(seconds: float, words: str):
    """They have two units at most, which no line break parts."""
    assert format_duration(seconds) == words.replace(" ", "\u00a0")


def test_moments_are_said_from_now():
    """Past and to come."""
    assert format_moment(NOW - 90, NOW) == "1\u00a0min ago"
    assert format_moment(NOW + 20, NOW) == "in 20\u00a0s"
    assert format_moment(NOW - 6.3, NOW) == "6\u00a0s ago"
    assert format_moment(NOW + 0.4, NOW) == "now"


def test_a_table_without_an_objective_shows_its_age_alone(pages: Pages):
    """No meter, which would have nothing to be held against, and no concern."""
    old = table(backlog=backlog(oldest_unmerged_at=NOW - 3 * 86400), objective=None)
    assert concerns(old, NOW) == ()
    page = Page(pages.all_tables(service(old)))
    assert "3 d no objective" in page.text
    assert not [svg for svg in page.all("svg") if "meter" in (svg.get("class") or "")]


def test_the_meter_shows_how_much_of_the_objective_is_used():
    """Beyond it, where in the bar it was passed."""
    assert meter(table(backlog=backlog(oldest_unmerged_at=NOW - 900)), NOW).filled == 25
    assert meter(table(backlog=None), NOW).filled == 0
    passed = meter(table(backlog=backlog(oldest_unmerged_at=NOW - 7200)), NOW)
    assert (passed.filled, passed.mark, passed.breached) == (100, 50, True)


def test_figures_say_only_what_there_is():
    """A verification merged nothing, and says nothing of it."""
    assert figures(job(figures=JobFigures()).figures) == ""
    wrong = figures(job(figures=JobFigures(groups_verified=4, groups_mismatched=1)).figures)
    assert wrong == "4 file groups checked, 1 wrong"
    assert "3 FULL · 9 LOG · 62 logs of 180.0\u00a0MiB merged" in figures(job().figures)


@pytest.mark.parametrize(("phase", "words"), [(ServicePhase.STARTING, "starting"), (ServicePhase.STOPPING, "stopping")])
def test_a_daemon_that_is_not_ready_says_so(pages: Pages, phase: ServicePhase, words: str):
    """The page says it before anything else."""
    assert f"The daemon is {words}." in Page(pages.all_tables(service(phase=phase))).text


def test_no_tables_is_no_empty_table(pages: Pages):
    """It says what to write where."""
    page = Page(pages.all_tables(service()))

    assert not page.all("table")
    assert "[[tables]]" in page.text


@pytest.mark.slow
def test_templates_and_stylesheet_are_in_the_wheel(tmp_path: Path):
    """All of them, as they are here: a page needs nothing that is not installed."""
    project = Path(__file__).parents[3]
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(build, cwd=project, check=True, capture_output=True, timeout=120)
    (wheel,) = tmp_path.glob("*.whl")

    with zipfile.ZipFile(wheel) as archive:
        packed = {
            Path(name).name: archive.read(name)
            for name in archive.namelist()
            if name.startswith("lakeward/daemon/web/templates/")
        }

    assert packed == {path.name: path.read_bytes() for path in TEMPLATES.iterdir()}
    assert {"tables.html", "table.html", "style.css"} <= packed.keys()


def job_of(job_id: str = "j1", **changes: object) -> JobPage:
    page = job_page(job_id, **changes)  # type: ignore[arg-type]
    assert page is not None
    return page


def test_a_job_has_a_page(pages: Pages):
    """Its end, where the time went with waiting apart, its card, what was chosen, its trail, and the commands."""
    text = Page(pages.one_job(job_of())).text.replace("\u00a0", " ")

    assert "committed Began 3 min ago , took 30 s, as instant 20270115075640123" in text
    assert "waited for the lock 3 s 10%" in text and "merged 18 s 60%" in text and "other 5 s" in text
    assert "It waited for others for 4 s of 30 s." in text
    assert "31 CPU seconds, 1.4 times what was predicted" in text
    assert "9 of 12" in text and "FULL, base and logs into a new base" in text
    assert "lakeward job j1" in text and "lakeward cancel" not in text
    failed = job_of(record=job(result="failed", error="The disk was full."))
    assert "The disk was full." in Page(pages.one_job(failed)).text


def test_a_job_that_runs_says_how_far_it_is_and_how_to_stop_it(pages: Pages):
    """What it waits for, and Spark's own pages, where they are on the web; the page is made again, until it ends."""
    html = pages.one_job(job_of("j2"))
    text = Page(html).text.replace("\u00a0", " ")

    assert "waiting" in text and "the table lock .hoodie/.locks/lock is held by spark-7" in text
    assert 'lakeward cancel j2 --reason "why"' in text
    assert 'href="http://host-1:4040"' in html
    assert "The seconds of each phase are there once it has ended." in text
    assert "http-equiv" in html and "http-equiv" not in pages.one_job(job_of("j1"))
    strange = SparkStatus(SparkState.UP, "x", "javascript:alert(1)")
    assert "javascript:" not in pages.one_job(job_of("j2", spark=strange))


@pytest.mark.parametrize("job_id", ["a1b2-3", "x/y", "..", "<b>"])
def test_the_link_of_a_job_leads_to_its_id(job_id: str):
    """Jobs of other releases may have any id."""
    assert job_of_link(job_link(job_id)) == job_id and "/" not in job_link(job_id).removeprefix("/jobs/")


def test_file_groups_are_found_by_a_part_of_their_names(pages: Pages):
    """In any case, and in what is left the choice and the order still count; the head says why for the first ones."""
    found = page_of(groups(230), GroupQuery(find="DT=2027-01-05", choice="NONE"))
    assert 0 < found.matching < 20
    assert all(group.partition_path == "dt=2027-01-05" for group in found.shown)
    query = GroupQuery.parse({"find": " 0000001f-95b0 "})
    html = pages.one_table(detail(), query)
    head = html[html.index('id="why"') :].partition("</section>")[0]
    assert head.count("0000001f-95b0-4c8e-8c5e-1f6b0b3a4d55-0") == 1
    assert "find=0000001f-95b0" in query.link(page=2)
    assert "No file group has" in Page(pages.one_table(detail(), GroupQuery(find="none"))).text


def test_a_page_can_be_read_aloud_and_used_by_keys(pages: Pages):
    """There is one `main`, which the first link leads to, and one `h1`; no level of headings is passed over, ids are
    there once, what a label or a link within the page names is there, each field has a label, each link a text, and
    each picture that means something a name. Nothing takes the focus out of its order."""
    for html in (
        pages.all_tables(service(*varied_tables()), ListQuery(refresh=False)),
        pages.one_table(busy_detail(), GroupQuery()),
        pages.one_job(job_of("j1")),
        pages.one_job(job_of("j2")),
        pages.message("x", "y"),
    ):
        page = Page(html)
        assert len(page.all("main")) == len(page.all("h1")) == 1
        assert page.all("a")[0]["href"] == "#main"
        levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
        assert all(after <= before + 1 for before, after in pairwise(levels))
        ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
        assert len(ids) == len(set(ids))
        named = [
            attributes[name] for _, attributes in page.tags for name in ("aria-labelledby", "for") if name in attributes
        ]
        named += [(tag["href"] or "")[1:] for tag in page.all("a") if (tag["href"] or "").startswith("#")]
        assert set(named) <= set(ids)
        labelled = {tag.get("for") for tag in page.all("label")}
        assert all(tag.get("type") == "hidden" or tag.get("id") in labelled for tag in page.all("input"))
        assert not re.findall(r"<a [^>]*>\s*</a>", html)
        assert all("aria-hidden" in tag or tag.get("aria-label") for tag in page.all("svg"))
        assert all("tabindex" not in attributes for _, attributes in page.tags)


def test_a_table_has_a_history(pages: Pages):
    """Curves of its backlog since the daemon watches it, bars of days also for days without a job, whose numbers stand
    below, and the timeline with whose instants are; without any of it there is no such section."""
    html = pages.one_table(busy_detail(), GroupQuery())
    section = html[html.index('id="history"') :].partition("</section>")[0]
    text = Page(f"<section {section}</section>").text.replace("\u00a0", " ")

    assert section.count('class="curve"') == 3 and "342.0 MiB at most" in text and "45 samples" in text
    assert "Bytes written a day, 9.0 GiB at most" in text and "2027-01-15 14 20.0 GiB 3.0 GiB 700 9,000" in text
    assert section.count('class="bar"') == 3 * 29
    assert "deltacommit 90" in text and "commit 15, 15 Lakeward's" in text and section.count('class="pending"') == 1
    assert all(svg.get("role") == "img" for svg in Page(f"<section {section}</section>").all("svg"))
    assert 'id="history"' not in pages.one_table(detail(table()), GroupQuery())
    young = pages.one_table(replace(busy_detail(), days=busy_detail().days[-1:]), GroupQuery())
    assert "from 2027-01-02 to 2027-01-15" in young, "a day alone is no wall"


def test_a_table_says_which_settings_are_in_force_and_what_says_so(pages: Pages):
    """Each with its place in the configuration."""
    text = Page(pages.one_table(busy_detail(), GroupQuery())).text.replace("\u00a0", " ")

    assert "2 settings, 1 of them given" in text
    assert 'interval = "10s" default' in text and 'objective = "1h" lakeward.toml:12:1' in text
    assert "Settings in force" not in Page(pages.one_table(detail(), GroupQuery())).text


def test_tables_in_a_list_say_what_they_owe(pages: Pages):
    """How long this machine would be busy with what the plan has, in a band, and how the backlog went."""
    html = pages.all_tables(service(varied_tables()[0], cores=4))

    assert "7 min of work here" in Page(html).text.replace("\u00a0", " ")
    assert html.count('class="spark"') == 1
    assert "of work here" not in pages.all_tables(service(table()))


def test_all_tables_say_what_the_month_cost(pages: Pages):
    """Beside the other sums, where it is known."""
    month = busy_detail().newest_month
    text = Page(pages.all_tables(service(table()), month=month)).text.replace("\u00a0", " ")

    assert "Cost in 2027-01 21,346 core-seconds 442 jobs, 3 failed" in text
    assert "Cost in" not in pages.all_tables(service(table()))
