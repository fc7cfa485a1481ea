"""Whatever shows what holds a table's storage shows the same: page, metrics, commands and their JSON, on one table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from lakeward.base.paths import join
from lakeward.base.quantities import format_size
from lakeward.cli.main import run
from lakeward.daemon.metrics.metrics import Metrics
from lakeward.daemon.status_report import table_detail
from lakeward.daemon.web.pages import GroupQuery, Pages
from lakeward.services.clean.plan.storage_states import FileState
from lakeward.storage.storage_of_url import open_storage
from tests.daemon.scrape import value
from tests.daemon.serving import Serving
from tests.golden_tables import copy_golden
from tests.object_tables import bring

CLEAN = '[defaults.clean]\npolicy = "versions"\nretain = 1\nreader_window = "0s"\n'
STRAY = "stray-0000-4000-8000-00000000000a-0_0-0-0_20261121043705000.parquet"
PLACES = ["folder", pytest.param("bucket", marks=pytest.mark.services)]


@pytest.fixture(params=PLACES)
def root(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The place of the tables: a folder, or one in an object store."""
    if request.param == "folder":
        return str(tmp_path / "tables")
    return f"{request.getfixturevalue('bucket')}/tables"


@pytest.mark.slow
def test_every_place_shows_one_storage(
    root: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slice through its life: pinned by a savepoint, dead, set aside (where it was, in an object store), and brought
    back; beside it an orphan file."""
    base, config = f"{root}/orders", tmp_path / "lakeward.toml"
    config.write_text(CLEAN)
    if "://" in root:
        storage, base = open_storage(base)
        bring(copy_golden("v9", tmp_path / "golden"), storage, base)
    else:
        storage, base = open_storage(str(copy_golden("v9", Path(base))))
    stopped = ("--writers", "stopped", "--config", str(config))

    def lakeward(*words: str) -> dict[str, Any]:
        capfd.readouterr()
        verb, *rest = words
        named = [verb, rest.pop(0)] if verb in ("savepoint", "quarantine") else [verb]
        assert run([*named, base, *rest, "--json"]) == 0
        out = capfd.readouterr().out
        return dict(json.loads(out[out.index("{") :])) if out.strip().startswith("{") else {"": json.loads(out)}

    def seen(name: str) -> dict[str, int]:
        """The bytes of each state, after every place was asked."""
        reported = lakeward("explain", "--config", str(config))["storage"]
        found = {state: total["bytes"] for state, total in reported.items()}
        kept = lakeward("quarantine", "list", "--config", str(config))["bytes"]
        assert kept == found["quarantined"]
        settings = {"defaults.clean.policy": "versions", "defaults.clean.retain": "1"}
        settings |= {"defaults.clean.reader_window": "0s", "defaults.services": '["clean"]', "locks.writers": "stopped"}
        monkeypatch.setattr("lakeward.services.clean.job.AFTER_COMMITS", 1000)
        serving = Serving(Path(root) if "://" not in root else root, tmp_path / name, settings=settings)  # type: ignore[arg-type]
        serving.run(30)
        status = serving.status()
        (shown,) = status.tables
        metrics = Metrics(CollectorRegistry())
        metrics.show(lambda: status)
        scraped = generate_latest(metrics.registry).decode()
        for state in FileState:
            gauge = value(scraped, "lakeward_table_storage_bytes", table=shown.name, state=state.value)
            assert gauge == found[state], (name, state)
        assert value(scraped, "lakeward_table_pinned_bytes", table=shown.name) == found["pinned"]
        assert value(scraped, "lakeward_table_quarantined_bytes", table=shown.name) == found["quarantined"]
        snapshot = serving.worker.snapshot(shown.name)
        page = Pages().one_table(table_detail(shown, snapshot, serving.store, at=serving.clock.now()), GroupQuery())
        for state, size in found.items():
            assert not size or (state in page and format_size(size) in page.replace("\u00a0", " ")), (name, state)
        serving.store.close()
        return {state: size for state, size in found.items() if size}

    newest = lakeward("savepoint", "create", *stopped)
    storage.create(join(base, "p", STRAY), b"stray")
    lakeward("compact", "--type", "full", "--engine", "local", *stopped)
    pinned = seen("pinned")
    assert pinned.keys() == {"live", "pinned", "orphan"} and pinned["orphan"] == 5

    (savepoint,) = lakeward("savepoint", "list")["savepoints"]
    assert savepoint["bytes_only_it_keeps"] == pinned["pinned"], newest
    assert run(["savepoint", "delete", base, savepoint["instant"], *stopped]) == 0
    dead = seen("dead")
    assert dead == {"live": pinned["live"], "dead": pinned["pinned"], "orphan": 5}

    (clean,) = lakeward("clean", "--keep-deleted", "1d", *stopped)["cleans"]
    assert seen("aside") == {"live": pinned["live"], "quarantined": pinned["pinned"], "orphan": 5}

    assert run(["quarantine", "restore", base, clean["instant"], *stopped]) == 0
    assert seen("back") == dead
