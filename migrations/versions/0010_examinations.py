"""What the doctor found: the newest examination of each table.

Revision 0010 of the store's schema.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

oldest_compatible = "0006"
"""The oldest revision whose release may still run on this schema. Only additions let the previous one run."""


def upgrade() -> None:
    op.create_table(
        "examinations",
        sa.Column("table_name", sa.Text(), nullable=False),
        sa.Column("tried_at", sa.Double(), nullable=False),
        sa.Column("looked_at", sa.Double()),
        sa.Column("document", sa.JSON()),
        sa.Column("problem", sa.Text()),
        sa.PrimaryKeyConstraint("table_name", name="pk_examinations"),
    )


def downgrade() -> None:
    raise NotImplementedError(
        "The store's schema only goes forward. The previous release runs on this one as it is; to leave the schema "
        "behind, give the daemon an empty store: it is filled again from the timelines."
    )
