"""Alert rules and dashboard: every metric in them is one that pipelines serve; promtool where it is installed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.once

FOLDER = Path(__file__).resolve().parents[2] / "jetson/prometheus"
CRITICAL = ("EdgedlaDown", "EdgedlaFramesStale", "EdgedlaCameraDown", "EdgedlaOutputFailed", "EdgedlaArtifactDamaged")
OF_DOOR = '{job="edgedla", instance="a", source="door"}'
PROMTOOL = shutil.which("promtool")
SUMMARY = {
    "frames": defaultdict(lambda: 3),
    "throughput_fps": 2.0,
    "simulated": False,
    "last_result_age_s": 1.0,
    "stages": {"age": {"count": 3, "mean_ms": 4.0, "p50_ms": 4.0, "p90_ms": 5.0, "p99_ms": 6.0, "max_ms": 6.0}},
    "runners": [
        {"runner": "DLA0", "in_use": True, "stages": [{"stage": 0, "device": "DLA0", "inference": {"count": 3, "mean_ms": 2.0}}]}
    ],
    "sources": [
        {
            "name": "gate",
            "state": "open",
            "last_frame_age_s": 0.1,
            "live": True,
            "why": "",
            "captured": 3,
            "skipped": 0,
            "reconnects": 0,
            "stalls": 0,
        }
    ],
    "models": [
        {
            "model": "",
            "all_non_finite": False,
            "sources": {"gate": {"results": 3, "dropped": 0, "age": {"p50_ms": 1.0, "p99_ms": 2.0}}},
        }
    ],
    "outputs": [{"output": "jsonl", "failed": "", "failures": 0, "lost": 0}, {"output": "events", "began": 0}],
}


@pytest.fixture(scope="module")
def page():
    prometheus = pytest.importorskip("prometheus_client")
    from edgedla.runtime.health.metrics import PipelineCollector

    registry = prometheus.CollectorRegistry()
    registry.register(PipelineCollector(lambda: SUMMARY))
    return prometheus.generate_latest(registry).decode()


def expressions():
    rules = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"][0]["rules"]
    board = json.loads((FOLDER / "dashboard.json").read_text())
    found = [r["expr"] for r in rules] + [t["expr"] for p in board["panels"] for t in p["targets"]]
    return found + [v["query"]["query"] for v in board["templating"]["list"] if v["type"] == "query"]


def test_every_metric_in_alerts_and_dashboard_is_served(page):
    served = set(re.findall(r"^(edgedla_\w+)", page, re.M))
    asked = {name for e in expressions() for name in re.findall(r"edgedla_\w+", e)}
    assert asked <= served, asked - served
    assert len(asked) >= 9


def test_the_dashboard_can_be_imported():
    board = json.loads((FOLDER / "dashboard.json").read_text())
    ids = [p["id"] for p in board["panels"]]
    assert len(set(ids)) == len(ids)
    variables = {v["name"] for v in board["templating"]["list"]}
    for p in board["panels"]:
        assert p["title"]
        assert p["fieldConfig"]["defaults"]["unit"]
        assert p["gridPos"]["x"] + p["gridPos"]["w"] <= 24
        used = set(re.findall(r"\$\{?(\w+)", json.dumps(p)))
        assert used <= variables, used
    places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in board["panels"]]
    assert len(set(places)) == len(places), "no panel hides another"


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (apt install prometheus)")
def test_promtool_takes_rules_and_metrics(page):
    done = subprocess.run([PROMTOOL, "check", "rules", str(FOLDER / "alerts.yml")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    done = subprocess.run([PROMTOOL, "check", "metrics"], input=page, capture_output=True, text=True)
    # Names that 0.1 gave stay, milliseconds and quantiles in a gauge as they are; nothing else may be wrong.
    known = ("should not contain abbreviated units", 'non-summary metrics should not have "quantile" label')
    assert [line for line in done.stderr.splitlines() if not line.endswith(known)] == []


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (apt install prometheus)")
def test_alerts_fire_only_under_their_conditions(tmp_path):
    (tmp_path / "alerts.yml").write_text((FOLDER / "alerts.yml").read_text())

    def alert(name, at, *several, **labels):
        severity = {"severity": "critical" if name in CRITICAL else "warning"}
        wanted = [{"job": "edgedla", "instance": "a", **one} for one in several] or ([labels] if labels else [])
        return {"eval_time": at, "alertname": name, "exp_alerts": [{"exp_labels": {**severity, **one}} for one in wanted]}

    tests = [
        {
            "interval": "1m",
            "input_series": [
                {"series": 'up{job="edgedla", instance="a"}', "values": "1x20"},
                {"series": 'up{job="edgedla", instance="b"}', "values": "1x5 0x20"},
                {"series": 'up{job="edgedla", instance="c"}', "values": "1x20"},
                {"series": 'edgedla_last_result_age_seconds{job="edgedla", instance="a"}', "values": "1x10 60+60x10"},
                {"series": 'edgedla_runner_in_use{job="edgedla", instance="a", runner="DLA1"}', "values": "1x5 0x20"},
                # yard never came, door stands still, lane closed at minute 5.
                {"series": 'edgedla_source_open{job="edgedla", instance="a", source="yard"}', "values": "0x20"},
                {"series": 'edgedla_source_open{job="edgedla", instance="a", source="door"}', "values": "1x20"},
                {"series": 'edgedla_source_open{job="edgedla", instance="a", source="lane"}', "values": "1x4 0x20"},
                {"series": f"edgedla_source_last_frame_age_seconds{OF_DOOR}", "values": "0x5 60+60x10"},
                {"series": 'edgedla_source_reconnects_total{job="edgedla", instance="b", source="lane"}', "values": "0+3x20"},
                {"series": 'edgedla_source_stalls_total{job="edgedla", instance="b", source="lane"}', "values": "0x20"},
                {"series": 'edgedla_artifact_damaged{job="edgedla", instance="a", model="colours"}', "values": "1x20"},
                {"series": 'edgedla_output_failed{job="edgedla", instance="a", output="jsonl"}', "values": "0x5 1x20"},
            ],
            "alert_rule_test": [
                alert("EdgedlaDown", "5m"),
                alert("EdgedlaDown", "9m", job="edgedla", instance="b"),
                alert("EdgedlaFramesStale", "9m", job="edgedla", instance="c"),
                alert("EdgedlaCameraDown", "1m"),
                alert("EdgedlaCameraDown", "4m", job="edgedla", instance="a", source="yard"),
                alert("EdgedlaCameraDown", "9m", *({"source": name} for name in ("yard", "door", "lane"))),
                alert("EdgedlaCameraUnstable", "9m", instance="b", source="lane"),
                alert("EdgedlaArtifactDamaged", "9m", job="edgedla", instance="a", model="colours"),
                alert("EdgedlaOutputFailed", "5m"),
                alert("EdgedlaOutputFailed", "9m", job="edgedla", instance="a", output="jsonl"),
                alert("EdgedlaRunnerTakenOut", "4m"),
                alert("EdgedlaRunnerTakenOut", "9m", job="edgedla", instance="a", runner="DLA1"),
            ],
        }
    ]
    # What an alert says is the rule's own word; here only that it fires, and for whom.
    rules = yaml.safe_load((tmp_path / "alerts.yml").read_text())
    for rule in rules["groups"][0]["rules"]:
        del rule["annotations"]
    (tmp_path / "alerts.yml").write_text(yaml.safe_dump(rules))
    (tmp_path / "t.yml").write_text(yaml.safe_dump({"rule_files": ["alerts.yml"], "evaluation_interval": "1m", "tests": tests}))
    done = subprocess.run([PROMTOOL, "test", "rules", str(tmp_path / "t.yml")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
