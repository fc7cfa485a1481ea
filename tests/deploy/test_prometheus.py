"""The rules: promtool's own checks, and that they speak of what the daemon says."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from lakeward.daemon.metrics.specs import METRICS
from lakeward.services.metric import Shown
from tests.deploy.promql import labels_of_result, problems_of, uses_in
from tests.deploy.tools import DEPLOY, PROJECT, find_tool, run

PROMETHEUS = DEPLOY / "prometheus"
RULES = PROMETHEUS / "rules" / "lakeward.yml"
TESTS = PROMETHEUS / "tests" / "lakeward.yml"
RUNBOOKS = PROJECT / "docs" / "runbooks"

ALERTS: list[dict[str, Any]] = [
    rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]
]
each_alert = pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])


@pytest.mark.promtool
@pytest.mark.parametrize(
    "words",
    [
        ("check", "rules", RULES),
        ("check", "config", "--syntax-only", PROMETHEUS / "prometheus.yml"),
        ("test", "rules", TESTS),
    ],
)
@pytest.mark.turns(17)
def test_promtool_is_content(words: tuple[str | Path, ...]) -> None:
    """Prometheus would load these files, and each alert fires and is quiet when it should be.

    The token that it is to show is in the container alone, and whether a file is there is all that is not checked.
    """
    run(find_tool("promtool", install="package prometheus of Debian"), *words)


@each_alert
def test_an_alert_speaks_of_what_is_scraped(alert: dict[str, Any]) -> None:
    """Every metric, label and label value of the expression exists in the daemon's code."""
    assert problems_of(alert["expr"]) == []


@each_alert
def test_an_alert_about_tables_sees_each_of_them(alert: dict[str, Any]) -> None:
    """What it watches is shown of tables with few series, too, and by the label values that it asks for."""
    specs = {spec.name: spec for spec in METRICS}
    for use in uses_in(alert["expr"]):
        spec = specs.get(use.name)
        if spec is None or spec.labels[:1] != ("table",):
            continue
        assert spec.shown is not Shown.WHOLE, use.name
        if spec.notable:
            asked = {label: values.split("|") for label, operator, values in use.matchers if operator != "!="}
            assert spec.notable.issuperset(asked[spec.labels[-1]]), use.name


@each_alert
def test_an_alert_says_who_should_do_what(alert: dict[str, Any]) -> None:
    """Severity, summary, description, and a runbook page that exists and is about this alert."""
    assert alert["labels"]["severity"] in ("critical", "warning", "info")
    annotations = alert["annotations"]
    assert annotations.keys() == {"summary", "description", "runbook"}
    page = PROJECT / annotations["runbook"]
    assert page.read_text().startswith(f"# {alert['alert']}\n")
    for part in ("What it means", "How to see it", "What to do", "When to silence it"):
        assert f"## {part}\n" in page.read_text(), part


@each_alert
def test_a_description_names_labels_that_the_result_has(alert: dict[str, Any]) -> None:
    """A label that an aggregation has dropped would leave a hole in the sentence."""
    named = set(re.findall(r"\$labels\.(\w+)", alert["annotations"]["description"]))
    left = labels_of_result(alert["expr"])
    if left is not None:
        assert named <= left


@each_alert
def test_an_alert_has_a_unit_test(alert: dict[str, Any]) -> None:
    """It is tested where it fires, and on something like it where it must not."""
    cases = [
        bool(case["exp_alerts"])
        for test in yaml.safe_load(TESTS.read_text())["tests"]
        for case in test["alert_rule_test"]
        if case["alertname"] == alert["alert"]
    ]
    assert True in cases and False in cases


def test_series_of_the_unit_tests_exist() -> None:
    """A unit test with a misspelt series would pass because nothing fires."""
    for test in yaml.safe_load(TESTS.read_text())["tests"]:
        for series in test["input_series"]:
            assert problems_of(series["series"]) == [], test["name"]


def test_every_runbook_is_some_alerts_and_is_listed() -> None:
    """No page without an alert, none that the table of contents leaves out."""
    pages = {path.name for path in RUNBOOKS.glob("*.md")} - {"README.md"}
    wanted = Counter(Path(alert["annotations"]["runbook"]).name for alert in ALERTS)
    assert wanted == Counter(pages)
    listed = re.findall(r"^\| \[(\w+)\]\(([a-z0-9-]+\.md)\) \| (\w+) \|", (RUNBOOKS / "README.md").read_text(), re.M)
    assert {(name, page, severity) for name, page, severity in listed} == {
        (alert["alert"], Path(alert["annotations"]["runbook"]).name, alert["labels"]["severity"]) for alert in ALERTS
    }


def test_the_reader_of_expressions_finds_what_is_wrong() -> None:
    """A name, a label, a label value, and a label to group by, each of which does not exist."""
    assert problems_of("lakeward_nothing > 0")
    assert problems_of('lakeward_ready{table="t"}')
    assert problems_of('lakeward_table_state{state="asleep"}')
    assert problems_of('lakeward_table_state{state=~"parked|asleep"}')
    assert problems_of("sum by (colour) (lakeward_ready)")
    assert not problems_of('sum by (job, state) (lakeward_table_state{state="parked", table=~"$table"})')
