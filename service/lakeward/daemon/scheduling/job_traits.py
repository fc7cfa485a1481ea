"""What the scheduler has to know of each kind of job: a row for each. A service of `services/services` brings its own.

    rank      among those that wait: recovery first, verification last
    window    whether it waits for one of the table's windows. They are about moving rows: recovery, plan expiry and
              rollback free what is stuck, a writer would service the metadata table whatever the window, and would
              clean and archive
    memory    whether it takes the table's memory permit; a compaction takes what its plan says, where it says so

Touches: nothing.
Keeps:   every kind that is not retired has a row.
"""

from __future__ import annotations

from collections.abc import Mapping

from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.service import JobTraits
from lakeward.services.services import SERVICES

TRAITS: Mapping[JobKind, JobTraits] = {
    **{service.kind: service.traits for service in SERVICES},
    JobKind.RECOVERY: JobTraits(0),
    JobKind.PLAN_EXPIRY: JobTraits(1),
    JobKind.METADATA_CLEAN: JobTraits(1),
    JobKind.METADATA_COMPACTION: JobTraits(1, takes_memory=True),
    JobKind.INDEX: JobTraits(1, takes_memory=True),
    JobKind.COMPACTION: JobTraits(1, waits_for_window=True, takes_memory=True),
    JobKind.VERIFICATION: JobTraits(2, waits_for_window=True, takes_memory=True),
}
