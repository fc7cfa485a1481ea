"""The keys by which an operator sets the planner; `planner` says what each of them means.

They stand apart from it because `--help` lists them, and answers before anything that plans is loaded.

Touches: nothing.
"""

SETTINGS = (
    "hoodie.compact.inline.max.delta.commits",
    "hoodie.compact.inline.max.delta.seconds",
    "hoodie.compact.inline.trigger.strategy",
    "hoodie.compaction.daybased.target.partitions",
    "hoodie.compaction.logfile.num.threshold",
    "hoodie.compaction.logfile.size.threshold",
    "hoodie.compaction.partition.path.regex",
    "hoodie.compaction.strategy",
    "hoodie.compaction.target.io",
    "planner.budget",
    "planner.group_trigger.delta_commits",
    "planner.group_trigger.elapsed",
    "planner.group_trigger.strategy",
    "planner.large_log_ratio",
    "planner.log_ratio",
    "planner.not_readers",
    "planner.policy",
    "planner.price",
    "planner.publish",
    "planner.reads",
    "planner.shadow",
    "planner.small_base_size",
    "planner.small_log_size",
)
