"""What compaction measures."""

from __future__ import annotations

from lakeward.services.metric import READ_BYTES, WRITTEN_BYTES, JobCounter, ServiceMetric, counter

METRICS: tuple[ServiceMetric, ...] = (
    JobCounter(
        counter(
            "lakeward_operations_total",
            "Operations (one file slice each) that jobs published, by type.",
            "table",
            "type",
        ),
        lambda figures: {"FULL": figures.full_operations, "LOG": figures.log_operations},
    ),
    JobCounter(
        counter(
            "lakeward_merges_total",
            "Operations that jobs published, by how their file groups were merged: order (the base file is sorted), "
            "hashes (it is not), sorting (the logs did not fit memory), either of these after a base file's order "
            "turned out wrong, ranks or out-of-ranks (layout lsm_tree).",
            "table",
            "by",
        ),
        lambda figures: figures.merges,
    ),
    JobCounter(
        counter(
            "lakeward_copied_row_groups_total",
            "Row groups of base files that no log touched, and that jobs carried over as bytes.",
            "table",
        ),
        lambda figures: figures.row_groups_copied,
    ),
    JobCounter(
        counter("lakeward_job_merged_log_files_total", "Log files that jobs merged away.", "table"),
        lambda figures: figures.log_files,
    ),
    JobCounter(
        counter("lakeward_job_merged_log_bytes_total", "Bytes of the logs that jobs merged away.", "table"),
        lambda figures: figures.log_bytes,
    ),
    JobCounter(
        counter(
            "lakeward_job_rows_total",
            "Rows that jobs wrote, and of them or of the base those that the logs inserted, updated or deleted.",
            "table",
            "kind",
        ),
        lambda figures: {
            "written": figures.rows_written,
            "inserted": figures.rows_inserted,
            "updated": figures.rows_updated,
            "deleted": figures.rows_deleted,
        },
    ),
    READ_BYTES,
    WRITTEN_BYTES,
)
