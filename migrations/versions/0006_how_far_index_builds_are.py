"""How far the making of indexes is.

Revision 0006 of the store's schema, after 0005. The release before knows nothing of the tables and needs nothing of
them. Two of these names were in 0001; no release wrote them, and 0002 took them away.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

oldest_compatible = "0001"
"""The oldest revision whose release may still run on this schema."""


def upgrade() -> None:
    op.create_table(
        "index_builds",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("table_name", sa.Text(), nullable=False),
        sa.Column("index_name", sa.Text(), nullable=False),
        sa.Column("index_type", sa.Text(), nullable=False),
        sa.Column("settings", sa.Text(), nullable=False),
        sa.Column("instant", sa.Text()),
        sa.Column("file_groups", sa.BigInteger(), nullable=False),
        sa.Column("began_at", sa.Double(), nullable=False),
        sa.Column("ended_at", sa.Double()),
        sa.Column("result", sa.Text()),
        sa.Column("error", sa.Text()),
        sa.Column("figures", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_index_builds"),
    )
    op.create_index("ix_index_builds_table_name_index_name", "index_builds", ["table_name", "index_name"])
    op.create_table(
        "index_checkpoints",
        sa.Column("build_id", sa.Text(), nullable=False),
        sa.Column("partition_path", sa.Text(), nullable=False),
        sa.Column("file_id", sa.Text(), nullable=False),
        sa.Column("instant", sa.Text(), nullable=False),
        sa.Column("entries", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("made", sa.JSON(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("build_id", "partition_path", "file_id", name="pk_index_checkpoints"),
    )


def downgrade() -> None:
    raise NotImplementedError(
        "The store's schema only goes forward. The previous release runs on this one as it is; to leave the schema "
        "behind, give the daemon an empty store: it is filled again from the timelines."
    )
