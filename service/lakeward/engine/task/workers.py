"""Imported by a process from which workers that carry tasks out are forked: they begin with all that a task needs.

A worker that loads the compiled kernels itself takes most of a second of CPU; forked it has them, and shares their
memory with the others.

Touches: what this process can import; Numba's cache folder, as every process does that loads kernels.
Keeps:   no forked process loads Numba, or makes a kernel that a task calls.
"""

from __future__ import annotations

from lakeward.base.without_pandas import leave_pandas_out

leave_pandas_out()

import lakeward.engine.task.key_checkpoint  # noqa: E402
import lakeward.engine.task.metadata_merge  # noqa: E402
import lakeward.engine.task.operation  # noqa: E402
import lakeward.engine.task.slice_check  # noqa: E402, F401
from lakeward.base.kernel import make_imported  # noqa: E402

make_imported()
