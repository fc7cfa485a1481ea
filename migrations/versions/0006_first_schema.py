"""The first schema.

Revision 0006 of the store's schema. Revisions 0001 to 0005 were before the first release, and are in it.
"""

from __future__ import annotations

import uuid

import sqlalchemy as sa
from alembic import context, op

revision = "0006"
down_revision = None
branch_labels = None
depends_on = None

oldest_compatible = "0006"
"""The oldest revision whose release may still run on this schema. Only additions let the previous one run."""

COUNTED = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "applied_writes",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("result", sa.JSON(none_as_null=True)),
        sa.PrimaryKeyConstraint("id", name="pk_applied_writes"),
    )
    op.create_index("ix_applied_writes_at", "applied_writes", ["at"])
    op.create_table(
        "attempts",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("instant", sa.Text()),
        sa.Column("holder", sa.Text()),
        sa.Column("began_at", sa.Double(), nullable=False),
        sa.Column("ended_at", sa.Double()),
        sa.Column("result", sa.Text()),
        sa.Column("error", sa.Text()),
        sa.Column("figures", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_attempts"),
    )
    op.create_index("ix_attempts_job_id", "attempts", ["job_id"])
    op.create_table(
        "cleaner_progress",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("instant", sa.Text(), nullable=False),
        sa.Column("files", sa.BigInteger(), nullable=False),
        sa.Column("files_total", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "instant", name="pk_cleaner_progress"),
    )
    op.create_table(
        "controls",
        sa.Column("id", COUNTED, autoincrement=True, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("target_kind", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("partition_path", sa.Text()),
        sa.Column("file_id", sa.Text()),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("requested_by", sa.Text(), nullable=False),
        sa.Column("requested_at", sa.Double(), nullable=False),
        sa.Column("until", sa.Double()),
        sa.Column("ended_at", sa.Double()),
        sa.Column("outcome", sa.Text()),
        sa.PrimaryKeyConstraint("id", name="pk_controls"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_controls_ended_at", "controls", ["ended_at"])
    op.create_table(
        "daemons",
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("service", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("address", sa.Text()),
        sa.Column("started_at", sa.Double(), nullable=False),
        sa.Column("beat_at", sa.Double(), nullable=False),
        sa.Column("process", sa.Text()),
        sa.PrimaryKeyConstraint("holder", name="pk_daemons"),
    )
    op.create_table(
        "decisions",
        sa.Column("table_name", sa.Text(), nullable=False),
        sa.Column("partition_path", sa.Text(), nullable=False),
        sa.Column("file_id", sa.Text(), nullable=False),
        sa.Column("choice", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("instead_of", sa.Text()),
        sa.Column("instant", sa.Text()),
        sa.Column("numbers", sa.JSON(), nullable=False),
        sa.Column("decided_at", sa.Double(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("table_name", "partition_path", "file_id", name="pk_decisions"),
    )
    op.create_table(
        "events",
        sa.Column("id", COUNTED, autoincrement=True, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("table_name", sa.Text()),
        sa.Column("partition_path", sa.Text()),
        sa.Column("file_id", sa.Text()),
        sa.Column("instant", sa.Text()),
        sa.Column("job_id", sa.Text()),
        sa.Column("holder", sa.Text()),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("fields", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_events"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_events_at", "events", ["at"])
    op.create_index("ix_events_table_name_id", "events", ["table_name", "id"])
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
    op.create_table(
        "jobs",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("table_name", sa.Text(), nullable=False),
        sa.Column("service", sa.Text(), nullable=False),
        sa.Column("instant", sa.Text()),
        sa.Column("holder", sa.Text()),
        sa.Column("token", sa.BigInteger()),
        sa.Column("began_at", sa.Double(), nullable=False),
        sa.Column("ended_at", sa.Double()),
        sa.Column("result", sa.Text()),
        sa.Column("error", sa.Text()),
        sa.Column("operations", sa.BigInteger(), nullable=False),
        sa.Column("read_bytes", sa.BigInteger(), nullable=False),
        sa.Column("write_bytes", sa.BigInteger(), nullable=False),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=False),
        sa.Column("figures", sa.JSON(), nullable=False),
        sa.Column("from_timeline", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
    )
    op.create_index("ix_jobs_began_at", "jobs", ["began_at"])
    op.create_index("ix_jobs_table_name_began_at", "jobs", ["table_name", "began_at"])
    op.create_table(
        "leases",
        sa.Column("table_name", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text()),
        sa.Column("token", sa.BigInteger(), nullable=False),
        sa.Column("until", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("table_name", name="pk_leases"),
    )
    op.create_table(
        "observed_operations",
        sa.Column("table_name", sa.Text(), nullable=False),
        sa.Column("instant", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("partition_path", sa.Text(), nullable=False),
        sa.Column("file_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("base_instant", sa.Text()),
        sa.Column("log_files", sa.BigInteger(), nullable=False),
        sa.Column("read_bytes", sa.BigInteger(), nullable=False),
        sa.Column("write_bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint(
            "table_name", "instant", "action", "partition_path", "file_id", name="pk_observed_operations"
        ),
    )
    op.create_table(
        "observed_plans",
        sa.Column("table_name", sa.Text(), nullable=False),
        sa.Column("instant", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("requested_at", sa.Double()),
        sa.Column("planned_by", sa.Text()),
        sa.Column("planned_by_service", sa.Text()),
        sa.Column("planned_by_store", sa.Text()),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("table_name", "instant", "action", name="pk_observed_plans"),
    )
    op.create_table(
        "parked_groups",
        sa.Column("table_name", sa.Text(), nullable=False),
        sa.Column("partition_path", sa.Text(), nullable=False),
        sa.Column("file_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("failures", sa.BigInteger(), nullable=False),
        sa.Column("parked_at", sa.Double(), nullable=False),
        sa.Column("until", sa.Double()),
        sa.PrimaryKeyConstraint("table_name", "partition_path", "file_id", name="pk_parked_groups"),
    )
    op.create_table(
        "plannings",
        sa.Column("table_name", sa.Text(), nullable=False),
        sa.Column("planned_at", sa.Double(), nullable=False),
        sa.Column("instant", sa.Text()),
        sa.Column("file_groups", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("table_name", name="pk_plannings"),
    )
    op.create_table(
        "schema_version",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("oldest_compatible", sa.Text(), nullable=False),
        sa.Column("written_by", sa.Text(), nullable=False),
        sa.Column("migrated_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_schema_version"),
    )
    op.create_table(
        "storage_samples",
        sa.Column("table_name", sa.Text(), nullable=False),
        sa.Column("slot", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("bytes", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("table_name", "slot", name="pk_storage_samples"),
    )
    op.create_table(
        "store_identity",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("store_id", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_store_identity"),
    )
    op.create_table(
        "watched_tables",
        sa.Column("table_name", sa.Text(), nullable=False),
        sa.Column("base_path", sa.Text(), nullable=False),
        sa.Column("first_watched_at", sa.Double(), nullable=False),
        sa.Column("seen_at", sa.Double(), nullable=False),
        sa.Column("serviced_since", sa.Double()),
        sa.PrimaryKeyConstraint("table_name", name="pk_watched_tables"),
    )
    # Who this store is, for the plans that are written on its advice; the one row that is data.
    identity = sa.table("store_identity", sa.column("id"), sa.column("store_id"), sa.column("created_at"))
    at = context.config.attributes["at"]
    op.execute(identity.insert().values(id=1, store_id=uuid.uuid4().hex, created_at=at))


def downgrade() -> None:
    raise NotImplementedError(
        "The store's schema only goes forward. The previous release runs on this one as it is; to leave the schema "
        "behind, give the daemon an empty store: it is filled again from the timelines."
    )
