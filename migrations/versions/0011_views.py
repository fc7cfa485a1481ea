"""Views for SQL of the operator's own: what was run, decided and spent, and what held the storage.

Revision 0011 of the store's schema. A later migration that changes a table below drops the view first, and makes it
again with the same columns.
"""

from __future__ import annotations

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

oldest_compatible = "0006"
"""The oldest revision whose release may still run on this schema. Only additions let the previous one run."""


def upgrade() -> None:
    is_sqlite = op.get_bind().dialect.name == "sqlite"

    def time(column: str) -> str:
        return f"strftime('%Y-%m-%d %H:%M:%S', {column}, 'unixepoch')" if is_sqlite else f"to_timestamp({column})"

    each_state = "json_each(s.bytes)" if is_sqlite else "json_each_text(s.bytes)"
    op.execute(
        f"""
        CREATE VIEW lakeward_runs AS
        SELECT j.id AS job_id, j.table_name, j.service, j.instant, {time("j.began_at")} AS began,
               {time("j.ended_at")} AS ended, j.ended_at - j.began_at AS seconds, c.waited_seconds, j.result, j.error,
               j.operations, c.read_bytes, c.written_bytes, c.predicted_seconds AS predicted_core_seconds,
               coalesce(c.cpu_seconds, c.task_seconds) AS actual_core_seconds, j.holder AS daemon, j.from_timeline
        FROM jobs j LEFT JOIN job_costs c ON c.job_id = j.id
        """
    )
    op.execute(
        f"""
        CREATE VIEW lakeward_decisions AS
        SELECT table_name, partition_path, file_id, choice, reason, instead_of, instant,
               {time("coalesce(chosen_at, decided_at)")} AS since, {time("decided_at")} AS figures_of,
               {time("CAST(NULL AS double precision)")} AS until, numbers AS figures
        FROM decisions
        UNION ALL
        SELECT table_name, partition_path, file_id, choice, reason, instead_of, instant, {time("chosen_at")},
               {time("decided_at")}, {time("ended_at")}, numbers
        FROM past_decisions
        """
    )
    op.execute(
        """
        CREATE VIEW lakeward_costs AS
        SELECT month, table_name, service, count(*) AS jobs,
               CAST(sum(CASE WHEN result IN ('committed', 'nothing') THEN 0 ELSE 1 END) AS bigint) AS failed,
               sum(seconds) AS seconds, sum(waited_seconds) AS waited_seconds,
               CAST(sum(read_bytes) AS bigint) AS read_bytes, CAST(sum(written_bytes) AS bigint) AS written_bytes,
               sum(predicted_seconds) AS predicted_core_seconds,
               sum(coalesce(cpu_seconds, task_seconds)) AS actual_core_seconds
        FROM job_costs GROUP BY month, table_name, service
        """
    )
    op.execute(
        f"""
        CREATE VIEW lakeward_storage_by_state AS
        SELECT s.table_name, {time("s.at")} AS at, e.key AS state, CAST(e.value AS bigint) AS bytes
        FROM storage_samples s, {each_state} e
        """
    )


def downgrade() -> None:
    raise NotImplementedError(
        "The store's schema only goes forward. The previous release runs on this one as it is; to leave the schema "
        "behind, give the daemon an empty store: it is filled again from the timelines."
    )
