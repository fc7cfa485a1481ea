"""What was decided for file groups before: `explain --at` reads it.

Revision 0007 of the store's schema. A release of 0006 writes decisions without the time since which they are chosen.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

oldest_compatible = "0006"
"""The oldest revision whose release may still run on this schema. Only additions let the previous one run."""

COUNTED = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.add_column("decisions", sa.Column("chosen_at", sa.Double()))
    op.create_table(
        "past_decisions",
        sa.Column("id", COUNTED, autoincrement=True, nullable=False),
        sa.Column("table_name", sa.Text(), nullable=False),
        sa.Column("partition_path", sa.Text(), nullable=False),
        sa.Column("file_id", sa.Text(), nullable=False),
        sa.Column("chosen_at", sa.Double(), nullable=False),
        sa.Column("decided_at", sa.Double(), nullable=False),
        sa.Column("ended_at", sa.Double(), nullable=False),
        sa.Column("group_gone", sa.Boolean(), nullable=False),
        sa.Column("choice", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("instead_of", sa.Text()),
        sa.Column("instant", sa.Text()),
        sa.Column("numbers", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_past_decisions"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_past_decisions_ended_at", "past_decisions", ["ended_at"])
    op.create_index("ix_past_decisions_table_name_chosen_at", "past_decisions", ["table_name", "chosen_at"])


def downgrade() -> None:
    raise NotImplementedError(
        "The store's schema only goes forward. The previous release runs on this one as it is; to leave the schema "
        "behind, give the daemon an empty store: it is filled again from the timelines."
    )
