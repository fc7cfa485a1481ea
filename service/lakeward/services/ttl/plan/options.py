"""When a partition expires: an operator's own words, or Hudi's keys.

Touches: nothing.
Source:  HoodieTTLConfig, PartitionTTLStrategyType (Hudi 1.2).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from lakeward.base.errors import UsageError
from lakeward.base.quantities import DAY_SECONDS

PARTITIONS_MAX = 1000
"""`hoodie.partition.ttl.strategy.max.delete.partitions`"""
TYPE = "hoodie.partition.ttl.management.strategy.type"
DAYS = "hoodie.partition.ttl.strategy.days.retain"
SELECTED = "hoodie.partition.ttl.strategy.partition.selected"
MAX = "hoodie.partition.ttl.strategy.max.delete.partitions"
TTL_SETTINGS = (TYPE, DAYS, SELECTED, MAX)


class AgeBy(StrEnum):
    WRITTEN = "written"
    """Since its newest row was written."""
    CREATED = "created"
    """Since the partition was made."""
    DATE = "date"
    """Since the day, or the hour, in its path was over."""


_OF_HUDI = {"KEEP_BY_TIME": AgeBy.WRITTEN, "KEEP_BY_CREATION_TIME": AgeBy.CREATED}


@dataclass(frozen=True, slots=True)
class TtlOptions:
    keep: float | None = None
    """Seconds; None: no partition expires."""
    by: AgeBy = AgeBy.WRITTEN
    date_format: str = "yyyy-MM-dd"
    partitions_max: int = PARTITIONS_MAX
    selected: Collection[str] | None = None
    """Only these; None: all."""


def ttl_options_of(
    hudi: Mapping[str, str],
    *,
    keep: float | None = None,
    by: AgeBy | None = None,
    date_format: str | None = None,
) -> TtlOptions:
    """What is given wins over Hudi's keys. Raises `UsageError`."""
    for key in hudi:
        if key not in TTL_SETTINGS:
            raise UsageError(
                f"{key} is no setting of Hudi's partition TTL that Lakeward takes.",
                why=f"It takes {', '.join(TTL_SETTINGS)}.",
                remedy="Leave it out, or say it by the keys of the section ttl.",
            )
    days, most = _whole(hudi, DAYS), _whole(hudi, MAX)
    if keep is None and days is not None and days > 0:
        keep = days * DAY_SECONDS
    type_ = hudi.get(TYPE, "KEEP_BY_TIME")
    if type_ not in _OF_HUDI:
        raise UsageError(
            f"{TYPE} is {type_}, which Lakeward does not know.",
            why=f"It knows {' and '.join(_OF_HUDI)}.",
            remedy='Take one of these, or ttl.by = "date" for dates in paths.',
        )
    selected = hudi.get(SELECTED)
    paths = frozenset(path.strip().strip("/") for path in (selected or "").split(",") if path.strip())
    return TtlOptions(
        keep,
        by or _OF_HUDI[type_],
        date_format or "yyyy-MM-dd",
        most or PARTITIONS_MAX,
        None if selected is None else paths,
    )


def _whole(hudi: Mapping[str, str], key: str) -> int | None:
    text = hudi.get(key)
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        raise UsageError(
            f"{key} is {text!r}, and not a whole number.", remedy="Write a number of days, or of partitions."
        ) from None
