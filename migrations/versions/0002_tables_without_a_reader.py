"""The tables that no release read or wrote are gone.

Revision 0002 of the store's schema, after 0001. `cleaner_progress`, `index_builds` and `index_checkpoints` were made
ahead of the services that would use them.
"""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

oldest_compatible = "0001"
"""The oldest revision whose release may still run on this schema. That of 0001 has no statement about these tables."""


def upgrade() -> None:
    op.drop_table("index_checkpoints")
    op.drop_table("index_builds")
    op.drop_table("cleaner_progress")


def downgrade() -> None:
    raise NotImplementedError(
        "The store's schema only goes forward. The previous release runs on this one as it is; to leave the schema "
        "behind, give the daemon an empty store: it is filled again from the timelines."
    )
