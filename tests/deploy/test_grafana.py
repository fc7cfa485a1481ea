"""The dashboard, without Grafana: that it can be provisioned, and asks for what the daemon says."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from lakeward.daemon.metrics.specs import METRICS
from tests.deploy.promql import problems_of, uses_in
from tests.deploy.tools import DEPLOY

GRAFANA = DEPLOY / "grafana"
DASHBOARD: dict[str, Any] = json.loads((GRAFANA / "dashboards" / "lakeward.json").read_text())
PANELS: list[dict[str, Any]] = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
EXPRESSIONS = [target["expr"] for panel in PANELS for target in panel["targets"]]
COLUMNS = 24


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_a_panel_asks_for_what_is_scraped(expression: str) -> None:
    """Every metric, label and label value exists in the daemon's code."""
    assert uses_in(expression)
    assert problems_of(expression) == []


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_a_panel_says_what_it_shows(panel: dict[str, Any]) -> None:
    """A title, a description, a unit, and the data source that the reader has chosen."""
    assert panel["title"] and panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


def test_variables_choose_the_table() -> None:
    """They are data source, job, table and the page's address; the panels of the first row show all tables, the others
    those that were chosen."""
    assert [variable["name"] for variable in DASHBOARD["templating"]["list"]] == ["datasource", "job", "table", "page"]
    for variable in DASHBOARD["templating"]["list"][1:3]:
        assert problems_of(variable["query"]["query"]) == []
    rows = [panel["title"] for panel in DASHBOARD["panels"] if panel["type"] == "row"]
    assert rows[:2] == ["Fleet", "Table: $table"]
    assert all("$table" in row for row in rows[1:])
    begin = [panel["title"] for panel in DASHBOARD["panels"]].index("Table: $table")
    for place, panel in enumerate(DASHBOARD["panels"]):
        if panel["type"] != "row":
            for target in panel["targets"]:
                assert ("$table" in target["expr"]) == (place > begin), panel["title"]


def test_a_panel_by_table_leads_to_its_page() -> None:
    """A click on a series opens the page of its table at the address that the reader gave."""
    for panel in PANELS:
        if any("{{table}}" in target["legendFormat"] for target in panel["targets"]):
            (link,) = panel["fieldConfig"]["defaults"]["links"]
            assert link["url"] == "${page}/tables/${__field.labels.table:percentencode}", panel["title"]


def test_each_metric_is_in_a_panel_or_an_alert() -> None:
    """Figures that neither show anywhere are scraped for nothing."""
    rules = yaml.safe_load((DEPLOY / "prometheus" / "rules" / "lakeward.yml").read_text())["groups"]
    expressions = [*EXPRESSIONS, *(rule["expr"] for group in rules for rule in group["rules"])]
    used = {re.sub("_(bucket|sum|count)$", "", use.name) for each in expressions for use in uses_in(each)}
    assert {spec.name for spec in METRICS} - used == {"lakeward_build_info"}, "which is where the variable is from"


def test_no_panel_lies_on_another() -> None:
    """Places on the grid are taken once."""
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= COLUMNS
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_it_is_provisioned_where_it_is_mounted() -> None:
    """The provider reads the folder that compose mounts; the data source is the Prometheus of compose."""
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    (provider,) = yaml.safe_load((GRAFANA / "provisioning" / "dashboards" / "lakeward.yaml").read_text())["providers"]
    mounts = dict(volume.split(":")[:2] for volume in compose["services"]["grafana"]["volumes"])
    assert mounts["./grafana/dashboards"] == provider["options"]["path"]
    (source,) = yaml.safe_load((GRAFANA / "provisioning" / "datasources" / "prometheus.yaml").read_text())[
        "datasources"
    ]
    assert source["url"] == "http://prometheus:9090"
    assert "prometheus" in compose["services"]
