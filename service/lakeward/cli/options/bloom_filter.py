"""The option for the largest bloom filter of a base file, for verbs that write base files.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from lakeward.base.errors import UsageError
from lakeward.base.quantities import format_size, parse_size
from lakeward.cli.options.values import parse_option
from lakeward.format.bloom_size import ROW_BYTES_LIMIT


@dataclass(frozen=True, slots=True)
class BloomFilterArguments:
    """What a command line says of them: a group of options."""

    bloom_filter_max: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Largest bloom filter of a base file, at 5.4 bytes for each key; default 16MiB. With more keys the "
            "filter errs more often than one time in 10^9, and a note says so.",
        ),
    ] = None

    def over(self, configured: int) -> int:
        """The bytes that are asked for here, and else in the configuration. Raises `UsageError`."""
        found = parse_option(parse_size, "--bloom-filter-max", self.bloom_filter_max, configured)
        if not 0 < found <= ROW_BYTES_LIMIT:
            raise UsageError(
                f"--bloom-filter-max cannot be {self.bloom_filter_max}.",
                why="The filter is text in the footer, and readers refuse a footer of 100 MB.",
                remedy=f"Give --bloom-filter-max a size up to {format_size(ROW_BYTES_LIMIT)}.",
            )
        return found


def bounded_filters(error_rates: Sequence[float]) -> str:
    """A sentence for people.

    Args:
        error_rates: of each such filter, one at least.
    """
    files = "1 file" if len(error_rates) == 1 else f"{len(error_rates):,} files"
    return (
        f"The bloom filters of {files} have more keys than room: the worst takes one key in "
        f"{1 / max(error_rates):,.0f} that is not there for one that is. Give them more: --bloom-filter-max, and "
        "--memory for more than 16 MiB."
    )
