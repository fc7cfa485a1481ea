"""Turn the refusals of `protocol/refusals/eligibility` into the error that stops a verb that writes.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakeward.base.errors import Refused
from lakeward.protocol.refusals.eligibility import Refusal


def refuse(base_path: str, refusals: Sequence[Refusal]) -> None:
    """Raise `Refused` naming every refusal; return when there is none."""
    if not refusals:
        return
    raise Refused(
        f"{base_path} cannot be serviced: {', '.join(refusal.id for refusal in refusals)}.",
        why=" ".join(f"{refusal.subject}: {refusal.why}" for refusal in refusals),
        remedy=" ".join(dict.fromkeys(refusal.remedy for refusal in refusals)),
    )
