"""What the scheduler has to know of each kind of job, as its service says.

Windows are about moving rows. Recovery, plan expiry and rollback free what is stuck; a writer would service the
metadata table, clean and archive whatever the window: none of these waits for one.

Touches: nothing.
Keeps:   every kind that is not retired has a row.
"""

from __future__ import annotations

from collections.abc import Mapping

from lakeward.protocol.job_kind import JobKind
from lakeward.services.service import JobTraits
from lakeward.services.services import load_services

TRAITS: Mapping[JobKind, JobTraits] = {
    kind: traits for service in load_services() for kind, traits in service.jobs.items()
}
