"""What the scheduler has to know of each kind of job: a row for each. A service of `services/services` brings its own.

Windows are about moving rows. Recovery, plan expiry and rollback free what is stuck; a writer would service the
metadata table, clean and archive whatever the window: none of these waits for one.

Touches: nothing.
Keeps:   every kind that is not retired has a row.
"""

from __future__ import annotations

from collections.abc import Mapping

from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.service import JobTraits
from lakeward.services.services import load_services

TRAITS: Mapping[JobKind, JobTraits] = {
    **{service.kind: service.traits for service in load_services()},
    JobKind.RECOVERY: JobTraits(0),
    JobKind.PLAN_EXPIRY: JobTraits(1),
    JobKind.METADATA_CLEAN: JobTraits(1),
    JobKind.METADATA_COMPACTION: JobTraits(1, takes_memory=True),
    JobKind.INDEX: JobTraits(1, takes_memory=True),
    JobKind.COMPACTION: JobTraits(1, waits_for_window=True, takes_memory=True),
    JobKind.VERIFICATION: JobTraits(2, waits_for_window=True, takes_memory=True),
}
