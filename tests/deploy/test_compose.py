"""compose.yaml: what the specification allows, and what we promise about every container."""

from __future__ import annotations

import json
import re
import stat
import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from deploy.dockerfile import DOCKERFILE, read_stages
from lakeward.config.file import load_settings
from tests.deploy.tools import DEPLOY, run

COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
each_service = pytest.mark.parametrize("name", SERVICES)


def test_it_is_what_the_specification_allows() -> None:
    """The published schema of compose files, which the development package check-jsonschema ships, accepts it."""
    vendor = resources.files("check_jsonschema") / "builtin_schemas" / "vendor" / "compose-spec.json"
    jsonschema.validate(COMPOSE, json.loads(vendor.read_text()))


@each_service
def test_a_container_may_do_little(name: str) -> None:
    """Read-only root, no capability, no new privileges, a user that is not root."""
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert not service["user"].startswith(("0", "root"))
    assert "privileged" not in service and "cap_add" not in service


@each_service
def test_an_image_is_pinned_and_its_health_is_known(name: str) -> None:
    """Its tag has a full version; a health check stands here, or in our own Dockerfile."""
    image = SERVICES[name]["image"]
    assert re.search(r":v?\d+\.\d+(\.\d+)?(-\w+)?(@sha256:[0-9a-f]{64})?$", image)
    assert "healthcheck" in SERVICES[name] or image.startswith("lakeward:")


@each_service
def test_ports_are_for_this_machine_only(name: str) -> None:
    """Tokens and passwords go over it as they are, so nothing is published beyond the loopback interface."""
    assert all(port.startswith("127.0.0.1:") for port in SERVICES[name].get("ports", []))


def test_secrets_are_files_and_nothing_else() -> None:
    """No password is in the file or in an environment; each secret is used and made by the script."""
    text = (DEPLOY / "compose.yaml").read_text()
    assert not re.search(r"PASSWORD(?!__?FILE)\w*:", text)
    used = {secret for service in SERVICES.values() for secret in service.get("secrets", [])}
    assert used == set(COMPOSE["secrets"])
    script = (DEPLOY / "compose" / "make-secrets").read_text()
    for secret in COMPOSE["secrets"].values():
        assert Path(secret["file"]).name in script


def test_prometheus_may_scrape() -> None:
    """It has the daemon's token, and asks under a name that the daemon knows."""
    scraping = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())["scrape_configs"][0]
    given = tomllib.loads((DEPLOY / "compose" / "lakeward.toml").read_text())["http"]
    assert scraping["authorization"]["credentials_file"] == given["token_file"]
    assert Path(given["token_file"]).name in set(SERVICES["prometheus"]["secrets"]) & set(
        SERVICES["lakeward"]["secrets"]
    )
    assert [target.partition(":")[0] for target in scraping["static_configs"][0]["targets"]] == given["hosts"]


def test_what_is_mounted_is_there() -> None:
    """Every file and folder of Lakeward that a container mounts exists; every named volume is declared."""
    for service in SERVICES.values():
        for volume in service.get("volumes", []):
            source = volume.rsplit(":", 2)[0] if volume.endswith(":ro") else volume.rsplit(":", 1)[0]
            if source.startswith("./"):
                assert (DEPLOY / source).exists(), source
            elif not source.startswith("$"):
                assert source in COMPOSE["volumes"]


def test_the_stop_leaves_the_grace_time(tmp_path: Path) -> None:
    """The daemon takes its configuration; Docker waits longer before it kills than the daemon takes at most."""
    secret = tmp_path / "store_url"
    secret.write_text("postgresql://lakeward:x@postgres/lakeward")
    given = tomllib.loads((DEPLOY / "compose" / "lakeward.toml").read_text())
    assert given["state"]["url_file"] == "/run/secrets/lakeward_store_url"
    assert given["http"]["token_file"] == "/run/secrets/lakeward_token"
    token = tmp_path / "token"
    token.write_text("0123456789abcdef")
    environment = {"LAKEWARD__STATE__URL_FILE": str(secret), "LAKEWARD__HTTP__TOKEN_FILE": str(token)}
    settings = load_settings(DEPLOY / "compose" / "lakeward.toml", environment)
    assert float(SERVICES["lakeward"]["stop_grace_period"].removesuffix("s")) > settings.service.grace
    assert settings.service.listen == "0.0.0.0:8490"
    assert SERVICES["lakeward"]["build"]["target"] in {stage.name for stage in read_stages(DOCKERFILE.read_text())}


def test_secrets_are_made_once(tmp_path: Path) -> None:
    """Random, readable through the mount only, and the same when the script runs again."""
    folder = tmp_path / "secrets"
    script = DEPLOY / "compose" / "make-secrets"
    run(script, folder)
    made = {path.name: path.read_text() for path in folder.iterdir()}
    run(script, folder)
    assert {path.name: path.read_text() for path in folder.iterdir()} == made
    assert made.keys() == {Path(secret["file"]).name for secret in COMPOSE["secrets"].values()}
    assert len(set(made.values())) == len(made)
    assert re.fullmatch(r"[0-9a-f]{48}", made["postgres_password"])
    assert f":{made['postgres_password']}@postgres/" in made["store_url"]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
