"""What jobs took: a row for each that ended.

Revision 0008 of the store's schema.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

oldest_compatible = "0006"
"""The oldest revision whose release may still run on this schema. Only additions let the previous one run."""


def upgrade() -> None:
    op.create_table(
        "job_costs",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("table_name", sa.Text(), nullable=False),
        sa.Column("service", sa.Text(), nullable=False),
        sa.Column("month", sa.Text(), nullable=False),
        sa.Column("ended_at", sa.Double(), nullable=False),
        sa.Column("result", sa.Text(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("waited_seconds", sa.Double(), nullable=False),
        sa.Column("read_bytes", sa.BigInteger(), nullable=False),
        sa.Column("written_bytes", sa.BigInteger(), nullable=False),
        sa.Column("predicted_seconds", sa.Double()),
        sa.Column("cpu_seconds", sa.Double()),
        sa.Column("task_seconds", sa.Double()),
        sa.Column("saved_seconds_a_day", sa.Double()),
        sa.Column("detail", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", name="pk_job_costs"),
    )
    op.create_index("ix_job_costs_table_name_ended_at", "job_costs", ["table_name", "ended_at"])
    op.create_index("ix_job_costs_ended_at", "job_costs", ["ended_at"])


def downgrade() -> None:
    raise NotImplementedError(
        "The store's schema only goes forward. The previous release runs on this one as it is; to leave the schema "
        "behind, give the daemon an empty store: it is filled again from the timelines."
    )
