"""`lakeward calibrate`: what merges take on this machine, beside what the planner says of them.

Touches: stdout; stderr; a temporary folder.
"""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path

import typer

from lakeward.api.trial import merge_generated
from lakeward.base.quantities import format_size
from lakeward.cli.result import Result
from lakeward.services.compaction.plan.cost import BYTES_PER_SECOND, OPERATION_SECONDS
from lakeward.services.compaction.plan.price import fit


def calibrate() -> Result:
    """Merge generated rows for about a minute, and show what merges take on this machine.

    A daemon's prices follow the jobs of each table; the setting `planner.price` says where they begin.
    """
    with tempfile.TemporaryDirectory(prefix="lakeward-calibrate-") as folder:
        merges = merge_generated(Path(folder), say=lambda text: typer.echo(text, err=True))
    fitted = fit([(merge.read_bytes, merge.cpu_seconds) for merge in merges])
    lines = [
        f"{format_size(merge.read_bytes)} read, {format_size(merge.written_bytes)} written: "
        f"{merge.cpu_seconds:.2f} CPU seconds"
        for merge in merges
    ]
    lines += [
        f"A merge takes {fitted.fixed_seconds:.2g} CPU seconds, and one for each "
        f"{format_size(1 / fitted.seconds_per_byte)} that it reads; of these it writes most again.",
        f"The planner takes {OPERATION_SECONDS:.2g} and {format_size(BYTES_PER_SECOND)}: what is generated here takes "
        f"{fitted.price:.2g} times that.",
        f'To begin with that price: planner = {{ "planner.price" = "{fitted.price:.2g}" }}. Rows of your tables may '
        "take another one, which a daemon learns from their jobs.",
    ]
    return Result(document={"merges": [asdict(merge) for merge in merges], **asdict(fitted)}, lines=lines)
