"""`make wheels`: this package as a wheel for any machine, and as one with compiled kernels for machines like this.

The second asks for exactly the Numba that compiled them, and depends on this minor version of Python, this architecture
and the C library that Numba's own wheel asks for. Where none fits, pip takes the first, and the first command compiles.

    python -m deploy.wheels [--output FOLDER]

Touches: the output; a temporary folder.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import distribution, version
from pathlib import Path

PROJECT = Path(__file__).parent.parent


def main() -> int:
    parser = argparse.ArgumentParser(prog="make wheels", description=__doc__)
    parser.add_argument("--output", type=Path, default=PROJECT / "dist")
    output: Path = parser.parse_args().output.resolve()
    for wheel in make_wheels(output):
        print(f"{wheel} ({wheel.stat().st_size / 1e6:.1f} MB)")
    return 0


def make_wheels(output: Path) -> tuple[Path, Path]:
    """The wheel for any machine, and the one with compiled kernels."""
    with tempfile.TemporaryDirectory(prefix="lakeward-wheels-") as scratch:
        run("pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", scratch, str(PROJECT))
        (pure,) = Path(scratch).glob("*.whl")
        run("wheel", "unpack", "--dest", scratch, str(pure))
        (unpacked,) = (path for path in Path(scratch).iterdir() if path.is_dir())
        compile_into(unpacked)
        (metadata,) = unpacked.glob("*.dist-info/METADATA")
        metadata.write_text(with_exact_numba(metadata.read_text(), version("numba")))
        tags = metadata.with_name("WHEEL")
        tags.write_text(for_this_machine(tags.read_text()))
        output.mkdir(parents=True, exist_ok=True)
        run("wheel", "pack", "--dest-dir", str(output), str(unpacked))
        (compiled,) = output.glob(f"{unpacked.name}-{python_tag()}-*.whl")
        return pure.replace(output / pure.name), compiled


def compile_into(packages: Path) -> None:
    """Compile the kernels of the package in this folder, with the Numba of this process, and leave them beside it."""
    compiled = PROJECT / "service" / "lakeward" / "compiled"
    if compiled.exists():
        shutil.copytree(compiled, packages / "lakeward" / "compiled")
    clean = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    run("lakeward.base.kernel_build", environment=clean | {"PYTHONPATH": str(packages)})
    assert (packages / "lakeward" / "compiled" / "made-for").exists()


def with_exact_numba(metadata: str, number: str) -> str:
    changed, times = re.subn(r"^Requires-Dist: numba\b.*$", f"Requires-Dist: numba=={number}", metadata, flags=re.M)
    assert times == 1, "the package asks for Numba once"
    return changed


def for_this_machine(wheel: str) -> str:
    """The head of the wheel, with the tags of where its kernels can be taken."""
    text = distribution("numba").read_text("WHEEL") or ""
    platforms = dict.fromkeys(tag.rpartition("-")[2] for tag in re.findall(r"^Tag: (.+)$", text, flags=re.M))
    kept = [line for line in wheel.splitlines() if line and not line.startswith(("Tag:", "Root-Is-Purelib:"))]
    tags = [f"Tag: {python_tag()}-{python_tag()}-{platform}" for platform in platforms]
    return "\n".join([*kept, "Root-Is-Purelib: false", *tags, ""])


def python_tag() -> str:
    return f"cp{sys.version_info[0]}{sys.version_info[1]}"


def run(module: str, *arguments: str, environment: dict[str, str] | None = None) -> None:
    subprocess.run([sys.executable, "-m", module, *arguments], env=environment, stdout=sys.stderr, check=True)


if __name__ == "__main__":
    sys.exit(main())
