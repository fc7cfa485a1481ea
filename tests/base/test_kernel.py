"""The decorator of all compiled kernels."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

from lakeward.base import kernel_cache
from lakeward.base.kernel import kernel, types
from lakeward.format.avro import decoder, encoder
from lakeward.merge.logs import key_index

holds_interpreter = ctypes.pythonapi.PyGILState_Check
holds_interpreter.argtypes = ()
holds_interpreter.restype = ctypes.c_int


@pytest.mark.filterwarnings("ignore:Cannot cache compiled function")
def test_a_running_kernel_does_not_hold_the_interpreter():
    """Two threads decode at once: the interpreter itself, asked from inside of a kernel, says that it is not held.

    Keeps 1 of base/kernel: none holds the interpreter's lock.
    """

    @kernel(types.int32())
    def ask():
        return holds_interpreter()

    assert holds_interpreter() == 1
    assert ask() == 0
    assert holds_interpreter() == 1


def test_kernels_are_cached():
    """Keeps 1 of base/kernel: compiled code is kept on disk, for each kernel below a folder of its own."""
    for compiled in (decoder._decode, encoder._encode, key_index._intern):
        assert compiled.stats.cache_path


def test_where_no_folder_can_be_written_kernels_are_compiled_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba refuses to make one that it cannot keep; each process compiles its own there."""
    monkeypatch.setattr(kernel_cache.config, "CACHE_LOCATOR_CLASSES", "numba.core.caching.UserProvidedCacheLocator")

    @kernel(types.int32(types.int32))
    def doubled(number: int) -> int:
        return 2 * number

    assert doubled(21) == 42


def test_numba_is_loaded_by_the_first_call() -> None:
    """Keeps 2 of base/kernel: a process that imports modules with kernels, as the help of a verb does, has no Numba."""
    program = (
        "import sys\n"
        "from lakeward.merge.rows import row_hash\n"
        "from lakeward.read import file_slice\n"
        "from lakeward.index.record import record_index\n"
        "assert 'numba' not in sys.modules\n"
        "from lakeward.format.avro import encoder\n"
        "assert encoder._encode.stats.cache_path and 'numba' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
