"""How far the deletions of cleans are.

Revision 0005 of the store's schema, after 0004. The release before knows nothing of the table and needs nothing of it.
One of this name was in 0001; no release wrote it, and 0002 took it away.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

oldest_compatible = "0001"
"""The oldest revision whose release may still run on this schema."""


def upgrade() -> None:
    op.create_table(
        "cleaner_progress",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("instant", sa.Text(), nullable=False),
        sa.Column("files", sa.BigInteger(), nullable=False),
        sa.Column("files_total", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "instant", name="pk_cleaner_progress"),
    )


def downgrade() -> None:
    raise NotImplementedError(
        "The store's schema only goes forward. The previous release runs on this one as it is; to leave the schema "
        "behind, give the daemon an empty store: it is filled again from the timelines."
    )
