"""The table services that there are: a line for each.

Touches: nothing.
"""

from __future__ import annotations

from typing import Any

from lakeward.protocol.service import Service
from lakeward.services.archive.job import ArchiveService
from lakeward.services.clean.job import CleanService
from lakeward.services.rollback.job import RollbackService

SERVICES: tuple[Service[Any], ...] = (RollbackService(), CleanService(), ArchiveService())
"""In the order in which a table gets them."""
