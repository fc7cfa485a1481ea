"""Reads of tables that engines reported: counts of days, and digests of recent ones.

Revision 0009 of the store's schema.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

oldest_compatible = "0006"
"""The oldest revision whose release may still run on this schema. Only additions let the previous one run."""


def upgrade() -> None:
    op.create_table(
        "read_days",
        sa.Column("table_name", sa.Text(), nullable=False),
        sa.Column("partition_path", sa.Text(), nullable=False),
        sa.Column("day", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("reads", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("table_name", "partition_path", "day", name="pk_read_days"),
    )
    op.create_table(
        "recent_reads",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_recent_reads"),
    )
    op.create_index("ix_recent_reads_at", "recent_reads", ["at"])


def downgrade() -> None:
    raise NotImplementedError(
        "The store's schema only goes forward. The previous release runs on this one as it is; to leave the schema "
        "behind, give the daemon an empty store: it is filled again from the timelines."
    )
