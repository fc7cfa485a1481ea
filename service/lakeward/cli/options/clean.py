"""The options that say what a clean keeps.

Touches: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from lakeward.base.quantities import parse_duration, write_duration
from lakeward.cli.options.lock import parse_option
from lakeward.cli.options.pairs import parse_pairs
from lakeward.services.clean.plan.consumer import parse_place
from lakeward.services.clean.plan.policy import READER_WINDOW_SECONDS, RETAINED_BY_DEFAULT, CleanPolicyKind
from lakeward.services.clean.plan.settings import CLEAN_SETTINGS, clean_policy_of, is_incremental, names_retention

if TYPE_CHECKING:
    from lakeward.services.clean.plan.options import CleanOptions
    from lakeward.services.clean.settings import CleanSettings


@dataclass(frozen=True, slots=True)
class StatedClean:
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

    def over(self, configured: CleanSettings) -> CleanOptions:
        """What is asked for here, and else what the configuration says. Raises `UsageError`."""
        settings = parse_pairs(self.settings, like="--set hoodie.clean.commits.retained=20")
        options = configured.options
        if self.policy is not None or self.retain is not None or names_retention(settings):
            options = replace(options, policy=clean_policy_of(settings, kind=self.policy, retain=self.retain))
        if self.consumer:
            pairs = parse_pairs(self.consumer, like="--consumer daily=table:s3://lake/orders_daily")
            options = replace(options, consumers={name: parse_place(place) for name, place in pairs.items()})
        return replace(
            options,
            reader_window=parse_option(parse_duration, "--reader-window", self.reader_window, options.reader_window),
            is_incremental=options.is_incremental and is_incremental(settings),
        )
