"""Since when a table's writers are known, and which process a daemon is.

Revision 0003 of the store's schema, after 0002. `watched_tables.serviced_since` is when a table was first seen with a
word about its writers; `daemons.process` tells on the daemon's own machine whether it lives. The release before writes
neither and needs neither.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

oldest_compatible = "0001"
"""The oldest revision whose release may still run on this schema."""


def upgrade() -> None:
    op.add_column("watched_tables", sa.Column("serviced_since", sa.Double()))
    op.add_column("daemons", sa.Column("process", sa.Text()))


def downgrade() -> None:
    raise NotImplementedError(
        "The store's schema only goes forward. The previous release runs on this one as it is; to leave the schema "
        "behind, give the daemon an empty store: it is filled again from the timelines."
    )
