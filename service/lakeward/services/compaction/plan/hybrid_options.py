"""What an operator may set of the planner: thresholds, filters, triggers, the form of plans, and the defaults of each.

Touches: nothing.
See:     docs/decisions/0006-hybrid-thresholds.md
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lakeward.services.compaction.plan.budget import BUDGET_BYTES
from lakeward.services.compaction.plan.decision import Choice, Form
from lakeward.services.compaction.plan.price import Price
from lakeward.services.compaction.plan.read_rates import ReadRates
from lakeward.services.compaction.plan.selection import GroupFilter, Selection
from lakeward.services.compaction.plan.trigger import Trigger

MIB = 1024 * 1024

LOG_NUM_THRESHOLD = 5
"""The number of logs at which a LOG is due: that of Hudi's blocks (hoodie.log.compaction.blocks.threshold)."""

LOG_SIZE_THRESHOLD = 64 * 1024

LOGS_WITHOUT_LOG = 4
"""Times the number of logs at which a LOG is due: with more, FULL merges them where no LOG may, or can."""

MERGED_LOGS = 16
"""Times that number: so many merged logs may lie in a slice, or more if the base is large, before FULL makes a new one.
"""


@dataclass(frozen=True, slots=True)
class HybridOptions:
    """What an operator may set; docs/decisions/0006-hybrid-thresholds.md says why the defaults are what they are."""

    groups: GroupFilter = field(default_factory=GroupFilter)
    selection: Selection = field(default_factory=Selection)
    small_base_size: int = 32 * MIB
    """Bytes; a base below this is always rewritten."""
    log_ratio: float = 0.5
    """A base is rewritten when its logs are larger than this part of it."""
    log_num_threshold: int = 0
    """Live logs from which on a group is compacted, FULL or LOG. 0, Hudi's "no filter": any for FULL,
    `LOG_NUM_THRESHOLD` for LOG."""
    log_size_threshold: int = 0
    """The same in bytes of live logs; with 0, `LOG_SIZE_THRESHOLD` for LOG."""
    small_log_size: int = 16 * MIB
    """Bytes; logs are small when their median is below this."""
    large_log_ratio: float = 0.5
    """A log larger than this part of what a FULL would write is in no LOG."""
    reads: ReadRates | None = None
    """How often each file group is read. Where it is given, a merge is made if it pays (`pay_back.py`), whatever the
    sizes above say."""
    price: Price = field(default_factory=Price)
    """What merges take on the table, as its jobs show; where it is off, what pays is not asked."""
    only: Choice | None = None
    """FULL or LOG wherever it is possible, whatever the rules say, and nothing else: `compact --type`."""
    objective: float | None = None
    """Seconds that a record may be in logs only; None: for ever."""
    form: Form | None = None
    """None is `auto`: split, and hybrid from table version 10 on. Where LOG is not allowed it is split in any case."""
    table_trigger: Trigger | None = None
    """When the table is considered, as the operator says."""
    trigger_of_rules: Trigger | None = None
    """The same where the operator says nothing; None: now. What pays is asked at each look, whatever stands here: a
    price says by itself when it is time."""
    group_trigger: Trigger | None = None
    """When a file group is considered; None: now."""
    sources_retire: bool = False
    """In the layout `lsm_tree` a clean takes what a LOG has merged out of slices that readers read. Until then they
    read it beside the LOG's output."""
    budget_bytes: int = BUDGET_BYTES
    """What the operations of one plan may read and write."""

    @property
    def is_by_cost(self) -> bool:
        """Whether what pays is merged, and not what the rules say."""
        return self.reads is not None and not self.price.is_off

    @property
    def trigger(self) -> Trigger | None:
        """The table's trigger that is asked; None: none is."""
        return self.table_trigger or (None if self.is_by_cost else self.trigger_of_rules)

    @property
    def is_asked_again(self) -> bool:
        """The table is planned again and again, as a daemon does, and not once."""
        return self.table_trigger is not None or self.trigger_of_rules is not None
