"""`lakeward clean TABLE`: delete old file slices that nothing needs any more; with --dry-run say which, and why.

Touches: stdout, stderr; the table, through `services/clean/run/cleaner.py`.
Keeps:   1. a partition that matches nothing is an error;
         2. nothing is written without a statement about the table's other writers, nor with --dry-run.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from lakeward.base.clock import SystemClock
from lakeward.base.quantities import parse_duration, parse_size, write_duration
from lakeward.cli.configured_table import ZonedTable
from lakeward.cli.options.lock import LockArguments
from lakeward.cli.options.plan_options import check_partitions
from lakeward.cli.options.values import parse_option, parse_pairs
from lakeward.cli.result import DryRunOption, Result
from lakeward.cli.serviced import serviced_table
from lakeward.cli.services.clean_view import cleaned_result, planned_result
from lakeward.protocol.refusals.eligibility import TableService, find_refusals, refuse
from lakeward.services.clean.plan.consumer import parse_place
from lakeward.services.clean.plan.hudi_cleaner_keys import (
    CLEAN_SETTINGS,
    CleanRules,
    clean_policy_of,
    is_incremental,
    names_retention,
)
from lakeward.services.clean.plan.policy import READER_WINDOW_SECONDS, RETAINED_BY_DEFAULT, CleanPolicyKind
from lakeward.services.clean.run.clean_choice import CleanChoice
from lakeward.services.clean.run.cleaner import clean_and_purge
from lakeward.services.clean.settings import CleanSettings
from lakeward.services.compaction.plan.selection import matches

if TYPE_CHECKING:
    from lakeward.services.clean.plan.policy import CleanOptions


@dataclass(frozen=True, slots=True)
class CleanArguments:
    """What a command line says about it: a group of options."""

    policy: Annotated[
        CleanPolicyKind | None,
        typer.Option(
            help="commits, the default: what can be read as of the last N commits stays. hours: as of the commits of "
            "the last N hours. versions: the N newest slices of each file group."
        ),
    ] = None
    retain: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="How many commits, hours or versions; by default, as with Hudi, "
            + ", ".join(f"{number} {kind}" for kind, number in RETAINED_BY_DEFAULT.items())
            + ". Without a word about it what the configuration says; or as much as the newest clean of the table's "
            "writers kept, if that is more.",
        ),
    ] = None
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help=f"A setting of Hudi's cleaner: {', '.join(CLEAN_SETTINGS)}; also by its older name, hoodie.cleaner.*. "
            "--policy and --retain win. Repeatable.",
        ),
    ] = None
    reader_window: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="The longest query to wait for: what was superseded within this time stays, whatever the policy says. "
            f"{write_duration(READER_WINDOW_SECONDS)} by default; 0, as with Hudi: none is.",
        ),
    ] = None
    consumer: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=PLACE",
            help="An incremental consumer, and where it says up to which time it has read: file:PATH, property:KEY of "
            "the table, or table:PATH of the table that it writes as a Hudi Streamer. What it has not read stays. "
            "Repeatable.",
        ),
    ] = None
    retire_merged_logs: Annotated[
        bool | None,
        typer.Option(
            "--retire-merged-logs/--keep-merged-logs",
            help="Delete logs that a log compaction has merged while readers still read their slice, in the layout "
            "default too. One of them stays as the anchor by which Hudi's readers find the output. In the layout "
            "lsm_tree they always go. Default: they stay.",
        ),
    ] = None

    def over(self, configured: CleanSettings) -> CleanOptions:
        """What is asked for here, and else what the configuration says. Raises `UsageError`."""
        settings = parse_pairs(self.settings, like="--set hoodie.clean.commits.retained=20")
        options = configured.options
        if self.policy is not None or self.retain is not None or names_retention(settings):
            options = replace(options, policy=clean_policy_of(settings, kind=self.policy, retain=self.retain))
        if self.consumer:
            pairs = parse_pairs(self.consumer, like="--consumer daily=table:s3://lake/orders_daily")
            options = replace(options, consumers={name: parse_place(place) for name, place in pairs.items()})
        asked = self.retire_merged_logs
        return replace(
            options,
            reader_window=parse_option(parse_duration, "--reader-window", self.reader_window, options.reader_window),
            is_incremental=options.is_incremental and is_incremental(settings),
            retires_by_anchors=options.retires_by_anchors if asked is None else asked,
        )


def clean(
    *,
    opened: ZonedTable,
    kept: CleanArguments,
    partition: Annotated[
        list[str] | None, typer.Option(metavar="GLOB", help="Only partitions of this path; * and ? match. Repeatable.")
    ] = None,
    keep_deleted: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="How long deleted files are kept in the quarantine, below .hoodie, from where they can be brought "
            "back. 0s, the default: files are deleted at once, as Hudi does.",
        ),
    ] = None,
    quarantine_max: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Size limit of the quarantine; beyond it the oldest files are deleted first. Default: no limit.",
        ),
    ] = None,
    given: LockArguments,
    dry_run: DryRunOption = False,
) -> Result:
    """Delete old file slices that no query, plan or savepoint needs any more, by Hudi's rules.

    Cleans that are pending are ended first, and what the quarantine has held for long enough is deleted last.
    """
    locks = given.over(opened, dry_run=dry_run)
    configured = opened.table.section(CleanSettings)
    keep_seconds = parse_option(parse_duration, "--keep-deleted", keep_deleted, configured.keep_deleted)
    bytes_max = parse_option(parse_size, "--quarantine-max", quarantine_max, configured.quarantine_max)
    rules = CleanRules(kept.over(configured), keep_seconds, bytes_max)
    if dry_run:
        choice = CleanChoice(opened.storage, opened.base_path, rules.options, clock=SystemClock())
        snapshot = opened.snapshot()
        refuse(opened.base_path, find_refusals(snapshot, TableService.CLEANING))
        return planned_result(choice.outcome(snapshot, _partitions(snapshot.partitions, partition)))

    with serviced_table(opened, locks) as serviced:
        selected = partial(_partitions, patterns=partition)
        return cleaned_result(*clean_and_purge(serviced, rules, selected=selected, is_part=bool(partition)))


def _partitions(partitions: Collection[str], patterns: Sequence[str] | None) -> frozenset[str] | None:
    """The table's partitions that match. Raises `UsageError` for a pattern that matches none."""
    if not patterns:
        return None
    check_partitions(patterns, partitions)
    return frozenset(path for path in partitions if matches(path, tuple(patterns)))
