"""What this process may have of its machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.engine.dispatch import machine

GIB = 1024**3


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine of 64 cores in the place of the control groups."""
    monkeypatch.setattr(machine, "_GROUPS", tmp_path)
    monkeypatch.setattr(machine, "_OWN_GROUPS", tmp_path / "own")
    monkeypatch.setattr("os.sched_getaffinity", lambda process: range(64))
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("own", "files", "memory", "cores"),
    [
        pytest.param("", {}, None, 64, id="nothing is said"),
        pytest.param("0::/\n", {"memory.max": f"{GIB}\n", "cpu.max": "250000 100000\n"}, GIB, 3, id="container"),
        pytest.param("0::/\n", {"memory.max": "max\n", "cpu.max": "max 100000\n"}, None, 64, id="without limits"),
        pytest.param(
            "0::/system.slice/lakeward.service\n",
            {
                "system.slice/lakeward.service/memory.max": "max\n",
                "system.slice/memory.max": f"{2 * GIB}\n",
                "system.slice/lakeward.service/cpu.max": "50000 100000\n",
            },
            2 * GIB,
            1,
            id="a service, and the slice that it is in",
        ),
        pytest.param(
            "4:memory:/a\n3:cpu,cpuacct:/b\n0::/\n",
            {
                "memory/a/memory.limit_in_bytes": f"{GIB}\n",
                "memory/memory.limit_in_bytes": "9223372036854771712\n",
                "cpu/b/cpu.cfs_quota_us": "400000\n",
                "cpu/b/cpu.cfs_period_us": "100000\n",
                "cpu/cpu.cfs_quota_us": "-1\n",
                "cpu/cpu.cfs_period_us": "100000\n",
            },
            GIB,
            4,
            id="version 1",
        ),
    ],
)
def test_the_tightest_limit_counts(
    groups: Path, own: str, files: dict[str, str], memory: int | None, cores: int
) -> None:
    """The group of this process counts, and so do all above it. Keeps of engine/dispatch/machine."""
    without = machine.memory_bytes()
    write(groups / "own", own)
    for path, text in files.items():
        write(groups / path, text)
    assert machine.memory_bytes() == (without if memory is None else memory)
    assert machine.cores() == cores
