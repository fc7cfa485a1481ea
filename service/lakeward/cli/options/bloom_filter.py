"""The option by which a verb that writes base files is told how large their bloom filters may be.

Touches: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from lakeward.base.errors import UsageError
from lakeward.base.quantities import format_size, parse_size
from lakeward.cli.options.lock import parse_option
from lakeward.format.bloom_size import ROW_BYTES_LIMIT


@dataclass(frozen=True, slots=True)
class StatedBloomFilter:
    """What a command line says of them: a group of options."""

    bloom_filter_max: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="What the bits of a base file's bloom filter may take, 5.4 bytes for each key; default 16MiB. With "
            "more keys it errs more often than one time in 10^9, which is said.",
        ),
    ] = None

    def over(self, configured: int) -> int:
        """The bytes that are asked for here, and else in the configuration. Raises `UsageError`."""
        found = parse_option(parse_size, "--bloom-filter-max", self.bloom_filter_max, configured)
        if not 0 < found <= ROW_BYTES_LIMIT:
            raise UsageError(
                f"A bloom filter of {self.bloom_filter_max} is too large, or none.",
                why="It stands in the footer as text, and readers take no footer of 100 MB.",
                remedy=f"Give --bloom-filter-max a size up to {format_size(ROW_BYTES_LIMIT)}.",
            )
        return found
