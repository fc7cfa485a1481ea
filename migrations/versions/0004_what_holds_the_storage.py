"""What held each table's storage over time.

Revision 0004 of the store's schema, after 0003. The release before knows nothing of the table and needs nothing of it.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

oldest_compatible = "0001"
"""The oldest revision whose release may still run on this schema."""


def upgrade() -> None:
    op.create_table(
        "storage_samples",
        sa.Column("table_name", sa.Text(), nullable=False),
        sa.Column("slot", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("bytes", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("table_name", "slot", name="pk_storage_samples"),
    )


def downgrade() -> None:
    raise NotImplementedError(
        "The store's schema only goes forward. The previous release runs on this one as it is; to leave the schema "
        "behind, give the daemon an empty store: it is filled again from the timelines."
    )
