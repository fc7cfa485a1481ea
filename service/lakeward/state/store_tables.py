"""The tables of the store, as SQLAlchemy Core knows them; `migrations/` is how a database gets them.

    about a table     watched_tables  plannings  decisions  observed_plans  observed_operations  storage_samples
                      past_decisions  examinations
    about our work    jobs  attempts  job_costs  compared_days  cleaner_progress  index_builds  index_checkpoints
    between daemons   leases  daemons
    from an operator  controls  parked_groups
    from engines      read_days  recent_reads
    about the past    events
    of the store      store_identity  schema_version  applied_writes

Touches: nothing.
Keeps:   1. migrations and this page agree (a test compares them on both databases);
         2. a column or table that a release wrote is never given another meaning; a new one gets a new name;
         3. all text passes `StorableText`, so that a name that came from a strange file system cannot break a write.
See:     docs/operate/store.md
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
)
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

TABLE_ITSELF = ""
"""The file id in `parked_groups` that stands for the whole table; no file group has it."""


class StorableText(TypeDecorator[str]):
    """Text that both databases take: PostgreSQL refuses NUL, and neither takes half of a surrogate pair."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else storable(value)


def storable(text: str) -> str:
    """`text` as it is read back."""
    return text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode()


# Ids that are counted up, and never used twice: an id may outlive its row in a log.
_COUNTED = BigInteger().with_variant(Integer, "sqlite")

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)

# ------------------------------------------------------------------------------------------------ about a table

watched_tables = Table(
    "watched_tables",
    metadata,
    Column("table_name", StorableText, primary_key=True),
    Column("base_path", StorableText, nullable=False),
    Column("first_watched_at", Double, nullable=False),
    Column("seen_at", Double, nullable=False),
    Column("serviced_since", Double),
    # A release without it leaves it as it is.
    Column("cost_since", Double),
)

plannings = Table(
    "plannings",
    metadata,
    Column("table_name", StorableText, primary_key=True),
    Column("planned_at", Double, nullable=False),
    Column("instant", StorableText),
    Column("file_groups", BigInteger, nullable=False),
)

decisions = Table(
    "decisions",
    metadata,
    Column("table_name", StorableText, primary_key=True),
    Column("partition_path", StorableText, primary_key=True),
    Column("file_id", StorableText, primary_key=True),
    Column("choice", StorableText, nullable=False),
    Column("reason", StorableText, nullable=False),
    Column("instead_of", StorableText),
    Column("instant", StorableText),
    Column("numbers", JSON, nullable=False),
    Column("decided_at", Double, nullable=False),
    Column("digest", StorableText, nullable=False),
    # A release without it, which may write beside this one, leaves it as it is.
    Column("chosen_at", Double),
)

past_decisions = Table(
    "past_decisions",
    metadata,
    Column("id", _COUNTED, primary_key=True, autoincrement=True),
    Column("table_name", StorableText, nullable=False),
    Column("partition_path", StorableText, nullable=False),
    Column("file_id", StorableText, nullable=False),
    Column("chosen_at", Double, nullable=False),
    Column("decided_at", Double, nullable=False),
    Column("ended_at", Double, nullable=False),
    Column("group_gone", Boolean, nullable=False),
    Column("choice", StorableText, nullable=False),
    Column("reason", StorableText, nullable=False),
    Column("instead_of", StorableText),
    Column("instant", StorableText),
    Column("numbers", JSON, nullable=False),
    Index(None, "table_name", "chosen_at"),
    Index(None, "ended_at"),
    sqlite_autoincrement=True,
)

observed_plans = Table(
    "observed_plans",
    metadata,
    Column("table_name", StorableText, primary_key=True),
    Column("instant", StorableText, primary_key=True),
    Column("action", StorableText, primary_key=True),
    Column("state", StorableText, nullable=False),
    Column("requested_at", Double),
    Column("planned_by", StorableText),
    Column("planned_by_service", StorableText),
    Column("planned_by_store", StorableText),
    Column("digest", StorableText, nullable=False),
)

observed_operations = Table(
    "observed_operations",
    metadata,
    Column("table_name", StorableText, primary_key=True),
    Column("instant", StorableText, primary_key=True),
    Column("action", StorableText, primary_key=True),
    Column("partition_path", StorableText, primary_key=True),
    Column("file_id", StorableText, primary_key=True),
    Column("kind", StorableText, nullable=False),
    Column("base_instant", StorableText),
    Column("log_files", BigInteger, nullable=False),
    Column("read_bytes", BigInteger, nullable=False),
    Column("write_bytes", BigInteger, nullable=False),
)

storage_samples = Table(
    "storage_samples",
    metadata,
    Column("table_name", StorableText, primary_key=True),
    Column("slot", BigInteger, primary_key=True, autoincrement=False),
    Column("at", Double, nullable=False),
    Column("bytes", JSON, nullable=False),
)
"""`slot` counts periods of ten minutes since the epoch; the newest sample of each stays."""

examinations = Table(
    "examinations",
    metadata,
    Column("table_name", StorableText, primary_key=True),
    Column("tried_at", Double, nullable=False),
    Column("looked_at", Double),
    Column("document", JSON(none_as_null=True)),
    Column("problem", StorableText),
)
"""`document` is what `lakeward doctor --json` gives, of the newest examination that saw the table at all."""

# ------------------------------------------------------------------------------------------------ about our work

jobs = Table(
    "jobs",
    metadata,
    Column("id", StorableText, primary_key=True),
    Column("table_name", StorableText, nullable=False),
    Column("service", StorableText, nullable=False),
    Column("instant", StorableText),
    Column("holder", StorableText),
    Column("token", BigInteger),
    Column("began_at", Double, nullable=False),
    Column("ended_at", Double),
    Column("result", StorableText),
    Column("error", StorableText),
    Column("operations", BigInteger, nullable=False),
    Column("read_bytes", BigInteger, nullable=False),
    Column("write_bytes", BigInteger, nullable=False),
    Column("memory_bytes", BigInteger, nullable=False),
    Column("figures", JSON, nullable=False),
    Column("from_timeline", Boolean, nullable=False),
    Index(None, "table_name", "began_at"),
    Index(None, "began_at"),
)

attempts = Table(
    "attempts",
    metadata,
    Column("id", StorableText, primary_key=True),
    Column("job_id", StorableText, nullable=False),
    Column("instant", StorableText),
    Column("holder", StorableText),
    Column("began_at", Double, nullable=False),
    Column("ended_at", Double),
    Column("result", StorableText),
    Column("error", StorableText),
    Column("figures", JSON, nullable=False),
    Index(None, "job_id"),
)

job_costs = Table(
    "job_costs",
    metadata,
    Column("job_id", StorableText, primary_key=True),
    Column("table_name", StorableText, nullable=False),
    Column("service", StorableText, nullable=False),
    Column("month", StorableText, nullable=False),
    Column("ended_at", Double, nullable=False),
    Column("result", StorableText, nullable=False),
    Column("seconds", Double, nullable=False),
    Column("waited_seconds", Double, nullable=False),
    Column("read_bytes", BigInteger, nullable=False),
    Column("written_bytes", BigInteger, nullable=False),
    Column("predicted_seconds", Double),
    Column("cpu_seconds", Double),
    Column("task_seconds", Double),
    Column("saved_seconds_a_day", Double),
    Column("detail", JSON, nullable=False),
    Index(None, "table_name", "ended_at"),
    Index(None, "ended_at"),
)

compared_days = Table(
    "compared_days",
    metadata,
    Column("table_name", StorableText, primary_key=True),
    Column("day", BigInteger, primary_key=True, autoincrement=False),
    Column("month", StorableText, nullable=False),
    Column("at", Double, nullable=False),
    Column("problem", StorableText),
    Column("written_bytes", BigInteger, nullable=False),
    Column("hudi_written_bytes", BigInteger, nullable=False),
    Column("job_seconds", Double, nullable=False),
    Column("hudi_job_seconds", Double, nullable=False),
    Column("reader_seconds", Double),
    Column("hudi_reader_seconds", Double),
    Column("storage_bytes", Double, nullable=False),
    Column("hudi_storage_bytes", Double, nullable=False),
    Column("real_bytes", BigInteger, nullable=False),
    Column("modelled_bytes", BigInteger, nullable=False),
    Column("carried", JSON(none_as_null=True)),
    Index(None, "day"),
)
"""`day` counts days since the epoch. The view `lakeward_beside_hudi` has its sums by month."""

cleaner_progress = Table(
    "cleaner_progress",
    metadata,
    Column("job_id", StorableText, primary_key=True),
    Column("instant", StorableText, primary_key=True),
    Column("files", BigInteger, nullable=False),
    Column("files_total", BigInteger, nullable=False),
    Column("at", Double, nullable=False),
)

index_builds = Table(
    "index_builds",
    metadata,
    Column("id", StorableText, primary_key=True),
    Column("table_name", StorableText, nullable=False),
    Column("index_name", StorableText, nullable=False),
    Column("index_type", StorableText, nullable=False),
    Column("settings", StorableText, nullable=False),
    Column("instant", StorableText),
    Column("file_groups", BigInteger, nullable=False),
    Column("began_at", Double, nullable=False),
    Column("ended_at", Double),
    Column("result", StorableText),
    Column("error", StorableText),
    Column("figures", JSON, nullable=False),
    Index(None, "table_name", "index_name"),
)

index_checkpoints = Table(
    "index_checkpoints",
    metadata,
    Column("build_id", StorableText, primary_key=True),
    Column("partition_path", StorableText, primary_key=True),
    Column("file_id", StorableText, primary_key=True),
    Column("instant", StorableText, nullable=False),
    Column("entries", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("made", JSON, nullable=False),
    Column("at", Double, nullable=False),
)

# ------------------------------------------------------------------------------------------------ between daemons

leases = Table(
    "leases",
    metadata,
    Column("table_name", StorableText, primary_key=True),
    Column("holder", StorableText),
    Column("token", BigInteger, nullable=False),
    Column("until", Double, nullable=False),
)

daemons = Table(
    "daemons",
    metadata,
    Column("holder", StorableText, primary_key=True),
    Column("service", StorableText, nullable=False),
    Column("version", StorableText, nullable=False),
    Column("address", StorableText),
    Column("started_at", Double, nullable=False),
    Column("beat_at", Double, nullable=False),
    Column("process", StorableText),
)

# ------------------------------------------------------------------------------------------------ from an operator

controls = Table(
    "controls",
    metadata,
    Column("id", _COUNTED, primary_key=True, autoincrement=True),
    Column("kind", StorableText, nullable=False),
    Column("target_kind", StorableText, nullable=False),
    Column("target", StorableText, nullable=False),
    Column("partition_path", StorableText),
    Column("file_id", StorableText),
    Column("reason", StorableText, nullable=False),
    Column("requested_by", StorableText, nullable=False),
    Column("requested_at", Double, nullable=False),
    Column("until", Double),
    Column("ended_at", Double),
    Column("outcome", StorableText),
    Index(None, "ended_at"),
    sqlite_autoincrement=True,
)

parked_groups = Table(
    "parked_groups",
    metadata,
    Column("table_name", StorableText, primary_key=True),
    Column("partition_path", StorableText, primary_key=True),
    Column("file_id", StorableText, primary_key=True),
    Column("kind", StorableText, nullable=False),
    Column("reason", StorableText, nullable=False),
    Column("failures", BigInteger, nullable=False),
    Column("parked_at", Double, nullable=False),
    Column("until", Double),
)

# ------------------------------------------------------------------------------------------------ from engines

read_days = Table(
    "read_days",
    metadata,
    Column("table_name", StorableText, primary_key=True),
    Column("partition_path", StorableText, primary_key=True),
    Column("day", BigInteger, primary_key=True, autoincrement=False),
    Column("reads", BigInteger, nullable=False),
)
"""`day` counts days since the epoch."""

recent_reads = Table(
    "recent_reads",
    metadata,
    Column("digest", StorableText, primary_key=True),
    Column("at", Double, nullable=False),
    Index(None, "at"),
)

# ------------------------------------------------------------------------------------------------ about the past

events = Table(
    "events",
    metadata,
    Column("id", _COUNTED, primary_key=True, autoincrement=True),
    Column("at", Double, nullable=False),
    Column("kind", StorableText, nullable=False),
    Column("table_name", StorableText),
    Column("partition_path", StorableText),
    Column("file_id", StorableText),
    Column("instant", StorableText),
    Column("job_id", StorableText),
    Column("holder", StorableText),
    Column("text", StorableText, nullable=False),
    Column("fields", JSON, nullable=False),
    Index(None, "table_name", "id"),
    Index(None, "at"),
    sqlite_autoincrement=True,
)

# ------------------------------------------------------------------------------------------------ of the store

store_identity = Table(
    "store_identity",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("store_id", StorableText, nullable=False),
    Column("created_at", Double, nullable=False),
)

schema_version = Table(
    "schema_version",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("oldest_compatible", StorableText, nullable=False),
    Column("written_by", StorableText, nullable=False),
    Column("migrated_at", Double, nullable=False),
)

applied_writes = Table(
    "applied_writes",
    metadata,
    Column("id", StorableText, primary_key=True),
    Column("at", Double, nullable=False),
    Column("result", JSON(none_as_null=True)),
    Index(None, "at"),
)
