"""`lakeward simulate TABLE`: what its last days would have cost by other policies of compaction; and `lakeward record`,
which writes what that is replayed from into a file that may be given away. Both read timelines alone.

Touches: stdout, stderr; the table's metadata, reading only; the file that --to or --html names.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from lakeward.base.clock import SystemClock
from lakeward.base.errors import UsageError
from lakeward.base.quantities import (
    format_count,
    format_duration,
    format_iso_time,
    format_share,
    format_size,
    format_time,
    parse_duration,
)
from lakeward.cli.configured_table import ConfigOption, ConfiguredTable, TimezoneOption, ZonedTable, open_table
from lakeward.cli.look.simulated_page import Curves, simulated_page
from lakeward.cli.options.new_file import write_new
from lakeward.cli.options.store import read_settings
from lakeward.cli.options.values import parse_option, parse_pairs
from lakeward.cli.progress import open_view
from lakeward.cli.result import Result
from lakeward.cli.terminal import Column, Rendered, Terminal, new_table
from lakeward.config.settings import TableSettings
from lakeward.services.compaction.plan.planner import COST, Planner, merge_settings, planner_of
from lakeward.services.compaction.plan.selection import GroupFilter
from lakeward.services.compaction.plan.trigger import Trigger
from lakeward.services.compaction.simulation.comparison import hudi_default
from lakeward.services.compaction.simulation.optimum import WRITES_MAX, Best, best_possible
from lakeward.services.compaction.simulation.replay import (
    Fit,
    ReplayedFigures,
    Span,
    check_is_long_enough,
    measure_fit,
    replay,
)
from lakeward.services.compaction.simulation.table_trace import read_trace
from lakeward.services.compaction.simulation.trace import Trace, parse_trace, write_trace

_BLOCKS = "▁▂▃▄▅▆▇█"
_HAPPENED = "what happened"
_BEST = "best possible"
_AS_SET = ", as set"
_STATES: Mapping[str, Callable[[Span], float]] = {
    "bases": lambda span: span.base_bytes,
    "logs": lambda span: span.log_bytes,
    "merged_logs": lambda span: span.superseded_bytes,
    "replaced": lambda span: span.replaced_bytes,
}
_CURVES: Sequence[tuple[str, Callable[[Span], float], Callable[[float], str]]] = (
    ("logs that a query opens", lambda span: span.opened, lambda value: f"{value:,.0f}"),
    ("bytes in storage", lambda span: span.storage_bytes, format_size),
)
_OWN_OPTIONS = {"planner.policy": "--policy", "planner.reads": "--reads"}

LastOption = Annotated[
    str, typer.Option("--last", metavar="DURATION", help="How far back, for example 14d or 36h.", show_default=True)
]


class PolicyName(StrEnum):
    HUDI = "hudi"
    RFC_103 = "rfc-103"
    COST = COST


def simulate(
    table: Annotated[
        str | None,
        typer.Argument(metavar="TABLE", help="Base path or URL of the table, or its name in the configuration."),
    ] = None,
    *,
    last: LastOption = "14d",
    reads: Annotated[
        str | None,
        typer.Option(
            metavar="N/UNIT",
            help="How often queries scan each partition, for example 200/day. It prices what readers pay for logs, and "
            "the policy cost decides by it. Default: planner.reads of the configuration, else 1/day.",
        ),
    ] = None,
    policy: Annotated[
        list[PolicyName] | None,
        typer.Option(
            metavar="<hudi|rfc-103|cost>",
            help="hudi: a FULL of every file group with logs after 5 delta commits. rfc-103: Lakeward's default rules. "
            "cost: merges what pays readers back. Repeatable; all three when not given.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="A setting of the planner, for example planner.log_ratio=0.3. rfc-103 and cost get another line with "
            "it, beside the one without. Repeatable.",
        ),
    ] = None,
    core_hour_price: Annotated[
        float | None,
        typer.Option(
            metavar="PRICE",
            help="What an hour of one core costs, in any currency: adds what jobs and readers would have cost.",
        ),
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Replay what `lakeward record` wrote, in place of a TABLE.")
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also write curves over time into an HTML file that needs no server; it must not exist.",
        ),
    ] = None,
    config: ConfigOption = None,
    timezone: TimezoneOption = None,
) -> Result:
    """Simulate a table's last days with other policies of compaction: what services would have written, what jobs and
    readers would have cost, and what readers would have met, beside what really happened.

    The table's own timeline is replayed without data: each commit adds its bytes, and the real planner decides. Nothing
    is written. The result says how well the replay reproduces what was really written; where that is off by more than
    15%, ratios and money are left out.
    """
    given = parse_pairs(settings, like="--set planner.log_ratio=0.3")
    for key, option in _OWN_OPTIONS.items():
        if key in given:
            raise UsageError(f"--set {key} is not taken here.", remedy=f"Give {option} {given[key]}.")
    if core_hour_price is not None and not 0 <= core_hour_price < float("inf"):
        raise UsageError("--core-hour-price cannot be negative.", remedy="Correct the option.")
    opened = _opened(table, trace, config, timezone)
    configured = _configured(opened, config)
    policies = _policies(
        configured, given, reads, policy or tuple(PolicyName), groups_are_named=opened is not None
    )  # a setting that is wrong is refused before the timeline is read
    clock = SystemClock()
    with open_view(Terminal(stderr=True), clock) as view:
        if opened is not None:
            found = _trace_of(opened, last, on_step=view.working)
        else:
            assert trace is not None, "`_opened` looked"
            found = _read_file(trace)
        what = str(trace) if opened is None else opened.base_path
        check_is_long_enough(found, what)
        fit = measure_fit(found)
        view.working("looking for the best that could have been done")
        best = best_possible(found, model=fit.model, reads_per_day=policies.reads_per_day)
        replays: dict[str, ReplayedFigures] = {}
        for name, planner in policies.planners.items():
            replays[name] = replay(
                found,
                planner=planner,
                model=fit.model,
                reads_per_day=policies.reads_per_day,
                on_step=partial(_say_replayed, view.working, name),
            )
    shown = Simulated(what, found, fit, policies.reads_per_day, core_hour_price, replays, best)
    if html is not None:
        write_new("--html", html, _page(shown).encode())
    return Rendered(document=_as_json(shown), render=partial(_render, shown))


def record(
    *,
    opened: ZonedTable,
    to: Annotated[Path, typer.Option("--to", metavar="FILE", help="The file to write; it must not exist.")],
    last: LastOption = "14d",
) -> Result:
    """Record a table's last days for `lakeward simulate --trace`: sizes and times of commits, no data.

    The file may be given away: names of partitions and file groups are hashes, and it has no key, path or column.
    """
    with open_view(Terminal(stderr=True), SystemClock()) as view:
        found = _trace_of(opened, last, on_step=view.working).hashed(secrets.token_bytes(16))
    content = write_trace(found)
    write_new("--to", to, content)
    commits, groups = format_count(len(found.replayed), "commit"), format_count(len(found.groups), "file group")
    return Result(
        document={
            "file": str(to),
            "bytes": len(content),
            "commits": len(found.replayed),
            "file_groups": len(found.groups),
            "begins": format_iso_time(found.begins / 1000),
            "ends": format_iso_time(found.ends / 1000),
        },
        lines=[f"Recorded {commits} of {groups} in {to}, {format_size(len(content))}."],
    )


def _say_replayed(say: Callable[[str], None], name: str, done: float) -> None:
    say(f"{name}: {format_share(done)} of the commits replayed")


def _opened(table: str | None, trace: Path | None, config: Path | None, timezone: str | None) -> ConfiguredTable | None:
    if (table is None) == (trace is None):
        what = "Neither a TABLE nor --trace is given." if table is None else "A TABLE and --trace are given."
        raise UsageError(what, remedy="Give the one that is to be simulated.")
    return None if table is None else open_table(table, config, timezone=timezone)


def _configured(opened: ConfiguredTable | None, config: Path | None) -> TableSettings:
    if opened is not None:
        return opened.table
    settings = read_settings(config, with_environment=config is not None)
    return settings.table_alone("/trace", timezone=None, is_given=config is not None)


def _trace_of(opened: ConfiguredTable, last: str, *, on_step: Callable[[str], None]) -> Trace:
    seconds = parse_option(parse_duration, "--last", last, 0.0)
    return read_trace(opened.storage, opened.snapshot(), last_seconds=seconds, now=SystemClock().now(), on_step=on_step)


def _read_file(path: Path) -> Trace:
    try:
        return parse_trace(path.read_bytes(), file=str(path))
    except OSError as error:
        raise UsageError(
            f"--trace {path} cannot be read.", why=str(error), remedy="Name a file of a record."
        ) from error


@dataclass(frozen=True, slots=True)
class _Policies:
    planners: Mapping[str, Planner | None]
    """None is what happened."""
    reads_per_day: float


def _policies(
    configured: TableSettings,
    given: Mapping[str, str],
    reads: str | None,
    names: Sequence[PolicyName],
    *,
    groups_are_named: bool,
) -> _Policies:
    """Raises `UsageError`."""
    groups = GroupFilter()
    if groups_are_named:
        groups = GroupFilter(partitions=configured.partitions, excluded_partitions=configured.exclude_partitions)

    def planner(name: PolicyName, more: Mapping[str, str], reads: str | None) -> Planner:
        said = {} if reads is None else {"planner.reads": reads}
        settings = merge_settings(configured.planner, more, said, {"planner.policy": name.value})
        return planner_of(
            configured.type,
            groups,
            settings,
            objective=configured.objective_under(settings),
            trigger=Trigger(),
            sources_retire=configured.sources_retire,
        )

    rates = planner(PolicyName.COST, {}, reads).options.reads
    assert rates is not None, "the policy cost has some"
    if (reads_per_day := rates.everywhere) is None:
        raise UsageError(
            "A simulation needs one rate of reads for all partitions.",
            why="planner.reads says several, and what readers pay is summed up over the whole table.",
            remedy="Give one with --reads, such as 200/day.",
        )
    priced_by = f"{reads_per_day!r}/day"
    found: dict[str, Planner | None] = {_HAPPENED: None}
    for name in PolicyName:
        if name in names and name is PolicyName.HUDI:
            found[name.value] = hudi_default()
        elif name in names:
            found[name.value] = planner(name, {}, priced_by)
            if given:
                found[f"{name.value}{_AS_SET}"] = planner(name, given, priced_by)
    return _Policies(found, reads_per_day)


@dataclass(frozen=True, slots=True)
class Simulated:
    """What a simulation found."""

    what: str
    trace: Trace
    fit: Fit
    reads_per_day: float
    core_hour_price: float | None
    replays: Mapping[str, ReplayedFigures]
    best: Best

    def over_best(self, name: str) -> float | None:
        """Core-seconds of jobs and readers over the least that was possible. None where all of them are estimates, or
        nothing had to be done."""
        least = self.best.core_seconds
        return self.replays[name].core_seconds / least if self.fit.is_close and least > 0 else None

    def is_fact(self, name: str) -> bool:
        return name == _HAPPENED or self.fit.is_close

    def amplification(self, name: str) -> float | None:
        """None where it would be an estimate alone; so is the price."""
        return self.replays[name].write_amplification if self.is_fact(name) else None

    def price(self, name: str) -> float | None:
        if self.core_hour_price is None or not self.is_fact(name):
            return None
        found = self.replays[name]
        return found.core_seconds / 3600 * self.core_hour_price


def _as_json(found: Simulated) -> dict[str, Any]:
    trace, fit = found.trace, found.fit
    return {
        "simulated": found.what,
        "begins": format_iso_time(trace.begins / 1000),
        "ends": format_iso_time(trace.ends / 1000),
        "commits": len(trace.replayed),
        "file_groups": len(trace.groups),
        "unknown_bases": trace.unknown_bases,
        "reads_per_day": found.reads_per_day,
        "core_hour_price": found.core_hour_price,
        "model": {
            "written_bytes": fit.real_bytes,
            "modelled_bytes": fit.modelled_bytes,
            "factor": None if fit.factor is None else round(fit.factor, 4),
            "is_close": fit.is_close,
        },
        "best_possible": {
            "core_seconds": round(found.best.core_seconds, 3),
            "groups_in_windows": found.best.groups_in_windows,
        },
        "policies": [_policy_as_json(found, name) for name in found.replays],
    }


def _policy_as_json(found: Simulated, name: str) -> dict[str, Any]:
    figures, amplification, price = found.replays[name], found.amplification(name), found.price(name)
    over_best = found.over_best(name)
    return {
        "policy": name.removesuffix(_AS_SET),
        "as_set": name.endswith(_AS_SET),
        "written_by_writers": figures.writer_bytes,
        "written_by_compactions": figures.compaction_bytes,
        "written_by_clusterings": figures.clustering_bytes,
        "read_by_compactions": figures.compaction_read_bytes,
        "write_amplification": None if amplification is None else round(amplification, 4),
        "jobs": figures.jobs,
        "full": figures.fulls,
        "log": figures.logs,
        "job_core_seconds": round(figures.job_seconds, 3),
        "reader_core_seconds": round(figures.reader_seconds, 3),
        "over_best": None if over_best is None else round(over_best, 4),
        "price": None if price is None else round(price, 4),
        "opened_logs_mean": round(figures.mean(lambda span: span.opened), 3),
        "opened_logs_max": figures.opened_max,
        "read_amplification_mean": round(figures.mean(lambda span: span.amplification), 4),
        "storage_bytes_mean": round(figures.mean(lambda span: span.storage_bytes)),
        "storage_bytes_max": figures.storage_bytes_max,
        "storage_by_state_mean": {name: round(figures.mean(of)) for name, of in _STATES.items()},
        "longest_job_seconds": round(figures.longest_job_seconds, 3),
        "writes_beside_jobs": figures.writes_beside,
        "seconds_beside_jobs": round(figures.beside_seconds, 3),
        "spans": [
            {
                "opened_logs": round(span.opened, 3),
                "read_amplification": round(span.amplification, 4),
                "storage_bytes": round(span.storage_bytes),
                "storage_by_state": {name: round(of(span)) for name, of in _STATES.items()},
            }
            for span in figures.spans
        ],
    }


def _intro(found: Simulated) -> str:
    trace = found.trace
    return (
        f"{found.what}: {format_duration((trace.ends - trace.begins) / 1000)} from "
        f"{format_time(trace.begins / 1000)} on, {format_count(len(trace.replayed), 'commit')} on "
        f"{format_count(len(trace.groups), 'file group')}. Queries scan each partition {found.reads_per_day:,g} times "
        "a day."
    )


def _page(found: Simulated) -> str:
    def curves(title: str, of: Callable[[Span], float], show: Callable[[float], str]) -> Curves:
        return Curves(title, show, {name: [of(span) for span in each.spans] for name, each in found.replays.items()})

    drawn = [curves(title, of, show) for title, of, show in _CURVES]
    drawn.append(curves("bytes over base that a query reads", _over_base, format_share))
    drawn += [curves(f"{name.replace('_', ' ')} in storage", of, format_size) for name, of in _STATES.items()]
    return simulated_page(f"Policies of compaction for {found.what}", _intro(found), drawn, _fit_lines(found))


def _over_base(span: Span) -> float:
    return max(0.0, span.amplification - 1)


def _render(found: Simulated, console: Terminal) -> None:
    console.print(_intro(found), highlight=False, markup=False)
    _render_writes(found, console)
    _render_reads(found, console)
    _render_storage(found, console)
    _render_chart(found, console)
    for line in _fit_lines(found):
        console.print(line, highlight=False, markup=False)


def _render_writes(found: Simulated, console: Terminal) -> None:
    kinds = {"writes": Column.FIXED} | dict.fromkeys(("writers", "services"), Column.NUMBER)
    kinds |= dict.fromkeys(("times", "jobs", "FULL", "LOG", "core time", "storage"), Column.NUMBER)
    table = new_table(kinds)
    for name, figures in found.replays.items():
        amplification = found.amplification(name)
        table.add_row(
            name,
            format_size(figures.writer_bytes),
            format_size(figures.service_bytes),
            "" if amplification is None else f"{amplification:,.1f}",
            f"{figures.jobs:,}",
            f"{figures.fulls:,}",
            f"{figures.logs:,}",
            format_duration(figures.job_seconds),
            format_size(figures.mean(lambda span: span.storage_bytes)),
        )
    console.print(table)


def _render_reads(found: Simulated, console: Terminal) -> None:
    kinds = {"reads": Column.FIXED} | dict.fromkeys(("logs opened", "at most", "bytes over base"), Column.NUMBER)
    kinds |= dict.fromkeys(("core time for logs", "and of jobs", "over best"), Column.NUMBER)
    if found.core_hour_price is not None:
        kinds |= {"jobs and readers cost": Column.NUMBER}
    table = new_table(kinds)
    for name, figures in found.replays.items():
        price, over_best = found.price(name), found.over_best(name)
        cells = [
            name,
            f"{figures.mean(lambda span: span.opened):,.1f}",
            f"{figures.opened_max:,}",
            format_share(max(0.0, figures.mean(lambda span: span.amplification) - 1)),
            format_duration(figures.reader_seconds),
            format_duration(figures.core_seconds),
            "" if over_best is None else f"{over_best:,.2f}",
        ]
        if found.core_hour_price is not None:
            cells.append("" if price is None else f"{price:,.4f}")
        table.add_row(*cells)
    table.add_row(_BEST, "", "", "", "", format_duration(found.best.core_seconds), "")
    console.print(table)


def _render_storage(found: Simulated, console: Terminal) -> None:
    kinds = {"storage": Column.FIXED} | dict.fromkeys(("bases", "logs", "merged logs", "replaced"), Column.NUMBER)
    kinds |= dict.fromkeys(("longest job", "writes beside", "for"), Column.NUMBER)
    table = new_table(kinds)
    for name, figures in found.replays.items():
        table.add_row(
            name,
            *(format_size(figures.mean(of)) for of in _STATES.values()),
            format_duration(figures.longest_job_seconds),
            f"{figures.writes_beside:,}",
            format_duration(figures.beside_seconds),
        )
    console.print(table)


def _render_chart(found: Simulated, console: Terminal) -> None:
    for title, of, show in _CURVES:
        most = max(of(span) for figures in found.replays.values() for span in figures.spans)
        if not most:
            continue
        table = new_table({title: Column.FIXED, f"over time, at most {show(most)}": Column.FIXED})
        for name, figures in found.replays.items():
            table.add_row(name, "".join(_block(of(span) / most) for span in figures.spans))
        console.print(table)


def _block(share: float) -> str:
    return _BLOCKS[min(len(_BLOCKS) - 1, int(share * len(_BLOCKS)))] if share else " "


def _fit_lines(found: Simulated) -> list[str]:
    fit, lines = (
        found.fit,
        [
            f"{_BEST}: the least core time that jobs and readers could have taken together, had all writes and reads "
            "been known before; without objective, caps and budget."
        ],
    )
    if found.best.groups_in_windows:
        groups = format_count(found.best.groups_in_windows, "file group")
        lines.append(
            f"Of {groups} with more than {WRITES_MAX} logs it is less than that: it was looked for in windows of "
            f"{WRITES_MAX} logs, each of which begins merged."
        )
    if fit.factor is None:
        lines.append(
            "No compaction was made in that time, so the model of sizes cannot be checked: ratios and money of other "
            "policies are left out."
        )
    elif fit.is_close:
        lines.append(
            f"By the model, the compactions that were made write {format_size(fit.modelled_bytes)}; really they wrote "
            f"{format_size(fit.real_bytes)}: {format_share(abs(fit.factor - 1))} off."
        )
    else:
        lines.append(
            f"By the model, the compactions that were made write {fit.factor:,.2f} times what they really wrote "
            f"({format_size(fit.real_bytes)}). Bytes of other policies are estimates; their ratios and money are left "
            "out."
        )
    if found.trace.unknown_bases:
        groups = format_count(found.trace.unknown_bases, "file group")
        lines.append(f"The bases of {groups} are older than the timeline and gone; they count as empty.")
    return lines
