"""Days of tables beside Hudi's default, and their sums by month.

Revision 0013 of the store's schema.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

oldest_compatible = "0006"
"""The oldest revision whose release may still run on this schema. Only additions let the previous one run."""


def upgrade() -> None:
    op.create_table(
        "compared_days",
        sa.Column("table_name", sa.Text(), nullable=False),
        sa.Column("day", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("month", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("problem", sa.Text()),
        sa.Column("written_bytes", sa.BigInteger(), nullable=False),
        sa.Column("hudi_written_bytes", sa.BigInteger(), nullable=False),
        sa.Column("job_seconds", sa.Double(), nullable=False),
        sa.Column("hudi_job_seconds", sa.Double(), nullable=False),
        sa.Column("reader_seconds", sa.Double()),
        sa.Column("hudi_reader_seconds", sa.Double()),
        sa.Column("storage_bytes", sa.Double(), nullable=False),
        sa.Column("hudi_storage_bytes", sa.Double(), nullable=False),
        sa.Column("real_bytes", sa.BigInteger(), nullable=False),
        sa.Column("modelled_bytes", sa.BigInteger(), nullable=False),
        sa.Column("carried", sa.JSON()),
        sa.PrimaryKeyConstraint("table_name", "day", name="pk_compared_days"),
    )
    op.create_index("ix_compared_days_day", "compared_days", ["day"])
    known = "problem IS NULL"
    readers = "count(CASE WHEN problem IS NULL AND reader_seconds IS NULL THEN 1 END) = 0"
    op.execute(
        f"""
        CREATE VIEW lakeward_beside_hudi AS
        SELECT month, table_name, count(CASE WHEN {known} THEN 1 END) AS days,
               count(CASE WHEN {known} THEN NULL ELSE 1 END) AS unknown_days,
               CAST(sum(written_bytes) AS bigint) AS written_bytes,
               CAST(sum(hudi_written_bytes) AS bigint) AS hudi_written_bytes,
               sum(job_seconds) AS job_core_seconds, sum(hudi_job_seconds) AS hudi_job_core_seconds,
               CASE WHEN {readers} THEN sum(reader_seconds) END AS reader_core_seconds,
               CASE WHEN {readers} THEN sum(hudi_reader_seconds) END AS hudi_reader_core_seconds,
               avg(CASE WHEN {known} THEN storage_bytes END) AS storage_bytes,
               avg(CASE WHEN {known} THEN hudi_storage_bytes END) AS hudi_storage_bytes,
               CAST(sum(real_bytes) AS bigint) AS counted_bytes, CAST(sum(modelled_bytes) AS bigint) AS modelled_bytes
        FROM compared_days GROUP BY month, table_name
        """
    )


def downgrade() -> None:
    raise NotImplementedError(
        "The store's schema only goes forward. The previous release runs on this one as it is; to leave the schema "
        "behind, give the daemon an empty store: it is filled again from the timelines."
    )
