"""What the process has loaded from which workers are forked."""

from __future__ import annotations

import subprocess
import sys


def test_a_forked_worker_has_all_kernels() -> None:
    """Keeps of engine/task/workers: it would load Numba at its first task, half a second of CPU and 100 MB."""
    program = (
        "import sys\n"
        "import lakeward.engine.task.workers\n"
        "from lakeward.base import kernel\n"
        "assert 'numba' in sys.modules\n"
        "made = []\n"
        "kernel._compiled = lambda function, signature: made.append(function)\n"
        "for each in kernel.Kernel.imported:\n"
        "    each.made()\n"
        "assert len(kernel.Kernel.imported) > 50 and not made, made\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
