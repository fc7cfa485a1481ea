"""What is said of bloom filters that have more keys than there was room for.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Sequence


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
