"""How Alembic reaches the store: over the connection, and in the transaction, that `state/migration.py` holds.

There is no other way in, so that every migration runs under the lock. To make a new one, in the source tree:

    alembic revision --rev-id 0003 --message "what it adds"
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from alembic import context
from sqlalchemy import Connection, delete, insert

from lakeward.state.store_tables import metadata, schema_version


def release() -> str:
    try:
        return version("lakeward")
    except PackageNotFoundError:
        return "source"


def run() -> None:
    connection = context.config.attributes.get("connection")
    if not isinstance(connection, Connection):
        raise SystemExit("Migrations run through `lakeward state migrate`, which holds the lock.")
    context.configure(connection=connection, target_metadata=metadata)
    with context.begin_transaction():
        context.run_migrations()
    head = context.script.get_revision("head")
    # What a later release leaves here is all that an earlier one needs to know of it.
    connection.execute(delete(schema_version))
    connection.execute(
        insert(schema_version).values(
            id=1,
            oldest_compatible=head.module.oldest_compatible,
            written_by=release(),
            migrated_at=context.config.attributes["at"],
        )
    )


run()
