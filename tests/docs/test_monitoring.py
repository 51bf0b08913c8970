"""The alert rules and the dashboard under deploy/: they parse, and every metric and label in them exists."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

_METRIC = re.compile(r"\b((?:bollard|process)_[a-z_]+)\b(?:\{([^}]*)\})?")
_PARTS = ("_bucket", "_count", "_sum")
_OF_SCRAPE = {"instance", "job", "le"}
"""Labels that Prometheus adds, and the bound of a histogram."""
_DURATION = re.compile(r"\d+[smhd]")
_SEVERITIES = {"info", "warning", "critical"}


@pytest.fixture(scope="module")
def rules(root: Path) -> list[Any]:
    (group,) = yaml.safe_load((root / "deploy/alerts.yaml").read_text(encoding="utf-8"))["groups"]
    return group["rules"]


@pytest.fixture(scope="module")
def dashboard(root: Path) -> Any:
    return json.loads((root / "deploy/dashboard.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def labels(root: Path) -> dict[str, set[str]]:
    """The labels of each metric, as the reference lists them."""
    page = (root / "docs/reference/metrics.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| \w+ \|([^|]*)\|", page, re.MULTILINE)
    return {name: set(re.findall(r"`(\w+)`", named)) for name, named in rows}


@pytest.fixture(scope="module")
def expressions(rules: list[Any], dashboard: Any) -> list[str]:
    shown = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    return [rule["expr"] for rule in rules] + shown


def problems(expression: str, families: dict[str, Any], labels: dict[str, set[str]]) -> list[str]:
    """The metrics and labels of an expression that do not exist."""
    found: list[str] = []
    grouped = {label.strip() for by in re.findall(r"by \(([^)]*)\)", expression) for label in by.split(",")}
    known: set[str] = set(_OF_SCRAPE)
    for name, selector in _METRIC.findall(expression):
        family = next((name.removesuffix(part) for part in _PARTS if name.endswith(part)), name)
        if family not in families or (family != name and families[family].kind != "histogram"):
            found.append(name)
            continue
        known |= labels[family]
        selected = set(re.findall(r"(\w+)\s*[=!]~?", selector)) - {"$"}
        found += [f"{name}{{{label}}}" for label in selected - labels[family] - _OF_SCRAPE]
    return found + [f"by ({label})" for label in grouped - known]


def test_every_metric_and_label_of_the_rules_and_the_dashboard_exists(
    expressions: list[str], families: dict[str, Any], labels: dict[str, set[str]]
) -> None:
    wrong = {expression: found for expression in expressions if (found := problems(expression, families, labels))}
    assert not wrong, wrong


def test_a_wrong_name_and_a_wrong_label_are_found(families: dict[str, Any], labels: dict[str, set[str]]) -> None:
    for expression, found in (
        ("bollard_no_such_metric > 0", ["bollard_no_such_metric"]),
        ("rate(bollard_runs_begun_total_bucket[5m])", ["bollard_runs_begun_total_bucket"]),
        ('bollard_runs{colour="red"}', ["bollard_runs{colour}"]),
        ("sum by (colour) (bollard_runs)", ["by (colour)"]),
        ('sum by (state) (bollard_runs{instance="a"})', []),
    ):
        assert problems(expression, families, labels) == found


def test_important_metrics_are_watched(expressions: list[str], families: dict[str, Any]) -> None:
    text = "\n".join(expressions)
    for name in families:
        if name.startswith(("bollard_approvals", "bollard_retriev", "bollard_programs", "bollard_records_lost")):
            assert name in text, name


def test_each_alert_has_a_summary_and_an_entry_in_the_guide(rules: list[Any], root: Path) -> None:
    guide = (root / "docs/guides/troubleshooting.md").read_text(encoding="utf-8")
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}, rule["alert"]
        assert rule["labels"]["severity"] in _SEVERITIES
        assert set(rule["annotations"]) == {"summary", "description"}
        assert _DURATION.fullmatch(rule.get("for", "1m"))
        for opening, closing in ("()", "{}", "[]"):
            assert rule["expr"].count(opening) == rule["expr"].count(closing), rule["alert"]
        assert f"`{rule['alert']}`" in guide, rule["alert"]


def test_prometheus_accepts_the_rules_and_the_configuration(root: Path) -> None:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("there is no promtool here (Debian: prometheus)")
    for arguments in (("check", "rules", "alerts.yaml"), ("check", "config", "--syntax-only", "prometheus.yaml")):
        done = subprocess.run(
            [program, *arguments], cwd=root / "deploy", capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_configuration_loads_the_rules_for_their_job(rules: list[Any], root: Path) -> None:
    configuration = yaml.safe_load((root / "deploy/prometheus.yaml").read_text(encoding="utf-8"))
    assert [(root / "deploy" / name).exists() for name in configuration["rule_files"]] == [True]
    jobs = {job["job_name"] for job in configuration["scrape_configs"]}
    assert {name for rule in rules for name in re.findall(r'job="([^"]+)"', rule["expr"])} <= jobs


def test_the_panels_have_their_positions_and_read_the_chosen_source(dashboard: Any) -> None:
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert max(x for x, _ in cells) < 24, panel["title"]
        assert not cells & taken, panel["title"]
        taken |= cells
        if panel["type"] != "row":
            assert panel["datasource"]["uid"] == "${datasource}"
            assert panel["title"]
            assert panel["targets"]
    assert {each["name"] for each in dashboard["templating"]["list"]} == {"datasource", "instance"}
