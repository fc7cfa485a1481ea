"""${message}.

Revision ${up_revision} of the store's schema, after ${down_revision | comma,n}.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
${imports if imports else ""}
revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None

oldest_compatible = ${repr(down_revision)}
"""The oldest revision whose release may still run on this schema. The previous one runs on what only adds, and
where what goes is in no statement of it."""


def upgrade() -> None:
    ${upgrades if upgrades else "pass"}


def downgrade() -> None:
    raise NotImplementedError(
        "The store's schema only goes forward. The previous release runs on this one as it is; to leave the schema "
        "behind, give the daemon an empty store: it is filled again from the timelines."
    )
