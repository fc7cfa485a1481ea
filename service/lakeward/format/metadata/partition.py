"""What the partitions of the metadata table are called.

Source:  MetadataPartitionType of Hudi 1.2.
"""

from __future__ import annotations

FILES = "files"
COLUMN_STATS = "column_stats"
PARTITION_STATS = "partition_stats"
BLOOM_FILTERS = "bloom_filters"
RECORD_INDEX = "record_index"
SECONDARY_INDEX_PREFIX = "secondary_index_"
"""The prefix of a partition's name, with the name of the index behind it."""
