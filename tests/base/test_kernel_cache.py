"""Compiled kernels: a wheel brings them along, and no process compiles what it can find."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.wheels import for_this_machine, make_wheels, with_exact_numba
from lakeward.base import kernel_build, kernel_folder
from lakeward.base.errors import LakewardError
from tests.golden_tables import copy_golden
from tests.installed_wheel import Installed, install

SOURCE = kernel_folder.PACKAGE
KERNEL = re.compile(r"^@kernel\(", re.MULTILINE)

ANOTHER_PROCESSOR = """
import llvmlite.binding
llvmlite.binding.get_host_cpu_name = lambda: "nehalem"
"""


def another_python() -> Path:
    """One of this minor version and another patch version, where this machine has one."""
    minor = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    for path in (Path("/usr/bin") / minor, Path("/usr/local/bin") / minor):
        if path.exists():
            said = subprocess.run([path, "-V"], capture_output=True, text=True, check=True).stdout
            if said.split()[1] != sys.version.split()[0]:
                return path
    return Path(sys.executable)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """An environment of another Python, which finds another processor."""
    root = tmp_path_factory.mktemp("installed")
    _, wheel = make_wheels(root / "dist")
    environment = install(wheel, root / "venv", python=another_python())
    (environment.packages / "sitecustomize.py").write_text(ANOTHER_PROCESSOR)
    return environment


def lakeward(installed: Installed, *commands: list[str]) -> str:
    """What the commands print, one after the other in one process."""
    program = f"import sys; from lakeward.cli.main import run; sys.exit(any(run(each) for each in {commands!r}))"
    done = subprocess.run(
        [installed.python, "-c", program], env=installed.environment, text=True, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "compiling" not in done.stderr
    return done.stdout


def kernels_on_disk(installed: Installed) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in installed.packages.rglob("*.nb[ci]")}


@pytest.mark.slow
def test_an_installed_wheel_compiles_nothing(installed: Installed, tmp_path: Path) -> None:
    """Under another patch version of Python and another processor's name, `compact`, `write` and `index build` take
    every kernel from the wheel: no file of Numba's comes or changes, beside the modules or in the user's cache."""
    before = kernels_on_disk(installed)
    rows = tmp_path / "rows.json"
    rows.write_text(json.dumps({"id": 1, "name": "Ada"}) + "\n")
    table, own = str(copy_golden("v9", tmp_path / "table")), str(tmp_path / "own")
    given = ["--writers", "stopped", "--timezone", "UTC"]
    fields = [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}]
    (tmp_path / "schema.json").write_text(json.dumps({"type": "record", "name": "person", "fields": fields}))
    lakeward(
        installed,
        ["compact", table, "--type", "full", *given],
        ["table", "create", own, "--schema", f"{tmp_path}/schema.json", "--record-key", "id"],
        ["write", own, "--input", str(rows), *given],
        ["index", "build", own, "--type", "record"],
    )
    kernels = sum(len(KERNEL.findall(path.read_text())) for path in SOURCE.rglob("*.py"))
    assert json.loads(lakeward(installed, ["warm", "--check", "--json"])) == {
        "folder": str(installed.packages / "lakeward" / "compiled"),
        "kernels": kernels,
        "compiled": 0,
    }
    assert kernels_on_disk(installed) == before
    assert len(before) == 2 * kernels


def test_a_wheel_asks_for_the_numba_that_compiled_it() -> None:
    """The wheel is for this minor version of Python, on the platforms that Numba itself is for."""
    assert with_exact_numba("Requires-Dist: numba>=0.60\n", "0.68.1") == "Requires-Dist: numba==0.68.1\n"
    head = for_this_machine("Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    assert "Root-Is-Purelib: false" in head
    assert "none-any" not in head
    assert re.search(rf"^Tag: cp3{sys.version_info[1]}-cp3{sys.version_info[1]}-\w+$", head, re.MULTILINE)


def mark(folder: Path, name: str = "base/kernel.py") -> None:
    """Says that kernels are there, made of one source."""
    digest = kernel_folder.digest_of(name)
    assert digest is not None
    kernel_folder.write_sources(folder / kernel_folder.MADE_FOR, {name: digest})


def test_kernels_of_other_sources_are_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps 2 of base/kernel_folder: one that changed, or is gone; nor a folder that does not say of which they are."""
    monkeypatch.setattr(kernel_folder, "PACKAGE", tmp_path)
    source = tmp_path / "one.py"
    source.write_text("FACTOR = 2\n")
    mark(tmp_path, "one.py")
    assert kernel_folder.is_made_for_this(tmp_path)
    source.write_text("FACTOR = 3\n")
    assert not kernel_folder.is_made_for_this(tmp_path)
    source.unlink()
    assert not kernel_folder.is_made_for_this(tmp_path)
    (tmp_path / kernel_folder.MADE_FOR).write_text(kernel_folder.fingerprint())
    assert not kernel_folder.is_made_for_this(tmp_path)
    (tmp_path / kernel_folder.MADE_FOR).write_text(f"{kernel_folder.fingerprint()}torn")
    assert not kernel_folder.is_made_for_this(tmp_path)


def test_code_of_kernels_comes_from_what_they_call_and_from_constants() -> None:
    """Other modules' kernels count, in turn; what only the rest of the module imports does not."""
    assert kernel_build._sources("lakeward.format.murmur") == {"format/murmur.py", "base/kernel.py"}
    assert "format/murmur.py" in kernel_build._sources("lakeward.format.bloom_lookup")
    assert {"merge/rows/row_hash.py", "merge/rows/byte_hash.py"} <= kernel_build._sources("lakeward.merge.digest")
    assert kernel_build._sources("lakeward.merge.logs.log_fold") == {"merge/logs/log_fold.py", "base/kernel.py"}


def test_kernels_for_another_machine_are_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps 1 of base/kernel_folder: by architecture, minor version of Python, and version of Numba."""
    monkeypatch.setattr(kernel_folder, "places", lambda: (tmp_path / "none", tmp_path))
    mark(tmp_path)
    assert kernel_folder.find_compiled() == tmp_path
    for name, value in {"machine": "riscv64", "version": "0.1"}.items():
        with monkeypatch.context() as other:
            if name == "machine":
                other.setattr("platform.machine", lambda value=value: value)
            else:
                other.setattr(kernel_folder, "version", lambda package, value=value: value)
            assert kernel_folder.find_compiled() is None
    monkeypatch.setattr(sys, "version_info", (3, 99, 0))
    assert kernel_folder.find_compiled() is None


@pytest.mark.slow
def test_half_a_build_is_taken_by_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps 1 and 2 of base/kernel_build: a stopped build leaves no mark, and the next one goes on; one that finds
    all done does nothing."""

    def stopped(folder: Path, modules: object) -> Iterator[tuple[str, int]]:
        yield next(iter(kernel_build.kernel_modules())), 1
        raise KeyboardInterrupt

    monkeypatch.setattr(kernel_build, "places", lambda: (tmp_path,))
    monkeypatch.setattr(kernel_build, "_compiled_in", stopped)
    reported: list[tuple[int, int]] = []
    with pytest.raises(KeyboardInterrupt):
        kernel_build.build(report=lambda done, total: reported.append((done, total)))
    kernels = sum(len(kernel_build.kernels_of(module)) for module in kernel_build.kernel_modules().values())
    assert reported[0] == (0, kernels)
    assert not kernel_folder.is_made_for_this(tmp_path)
    (tmp_path / "format").mkdir()
    (kept := tmp_path / "format" / f"murmur.hash_lanes-{line_of_hash_lanes()}.py311.1.nbc").touch()
    monkeypatch.setattr(kernel_build, "_compiled_in", lambda folder, modules: iter([(name, 0) for name in modules]))
    assert kernel_build.build() is not None
    assert kernel_folder.is_made_for_this(tmp_path)
    assert kept.exists()
    assert kernel_build.build(is_needed=lambda: not kernel_folder.is_made_for_this(tmp_path)) is None


def line_of_hash_lanes() -> int:
    module = SOURCE / "format" / "murmur.py"
    (line,) = [n for n, text in enumerate(module.read_text().splitlines()) if text.startswith("def hash_lanes(")]
    return line


def test_kernels_of_older_sources_go(tmp_path: Path) -> None:
    """Keeps 3 of base/kernel_build: a function that stands on another line now is another file."""
    line = line_of_hash_lanes()
    names = [f"murmur.hash_lanes-{number}.py311.1.nbc" for number in (line, line + 5)]
    names += ["murmur.no_more-3.py311.nbi"]
    (tmp_path / "format").mkdir()
    for name in names:
        (tmp_path / "format" / name).touch()
    kernel_build._remove_stale(tmp_path, kernel_build.kernel_modules())
    assert [path.name for path in (tmp_path / "format").iterdir()] == names[:1]


def test_kernels_that_can_be_kept_nowhere_name_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(kernel_build, "places", lambda: (tmp_path / "file" / "compiled",))
    with pytest.raises(LakewardError, match="can be kept nowhere") as raised:
        kernel_build.build()
    assert str(tmp_path / "file" / "compiled") in raised.value.why
    assert "XDG_CACHE_HOME" in raised.value.remedy


def test_a_check_says_which_folders_have_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps of cli/warm_command: and makes none."""
    monkeypatch.setattr(kernel_build, "places", lambda: (tmp_path / "one", tmp_path / "two"))
    monkeypatch.setattr(kernel_build, "find_compiled", lambda: None)
    with pytest.raises(LakewardError, match="not compiled here") as raised:
        kernel_build.check()
    assert f"{tmp_path}/one, {tmp_path}/two." in raised.value.why
    assert "lakeward warm" in raised.value.remedy
    assert not list(tmp_path.iterdir())


def test_a_module_is_compiled_behind_those_that_it_calls() -> None:
    modules = kernel_build.kernel_modules()
    assert "lakeward.format.murmur" in kernel_build._needs(modules["lakeward.format.bloom_lookup"], modules)
    assert kernel_build._needs(modules["lakeward.format.murmur"], modules) == set()


@pytest.mark.parametrize("variable", ["NUMBA_CPU_NAME=generic", "NUMBA_DISABLE_JIT=1"])
def test_a_process_that_was_shown_otherwise_goes_by_that(variable: str) -> None:
    """Keeps of base/kernel_cache: Numba's own variables decide."""
    name, _, value = variable.partition("=")
    program = (
        "from lakeward.base import kernel_cache as it; it.use_or_build(); print(hasattr(it.CompiledKernels, 'folder'))"
    )
    clean = {each: text for each, text in os.environ.items() if not each.startswith("NUMBA_")}
    done = subprocess.run(
        [sys.executable, "-c", program], env=clean | {name: value}, text=True, capture_output=True, check=True
    )
    assert done.stdout == "False\n"


def test_every_kernel_has_the_decorator() -> None:
    """One that Numba is asked for otherwise would be compiled in every process, or hold the interpreter at work."""
    assert kernel_build.kernel_modules()
    for path in SOURCE.rglob("*.py"):
        if re.search(r"\bnumba\b.*\bimport\b|\bimport numba\b", path.read_text()):
            assert path.name in ("kernel.py", "kernel_cache.py", "address_code.py"), path
