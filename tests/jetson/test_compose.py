"""The compose file: what it mounts is there, names and ports fit together, and each tool's own reader takes its settings."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from edgedla.runtime.pipeline.config import load_config

pytestmark = pytest.mark.once

FOLDER = Path(__file__).resolve().parents[2] / "jetson" / "compose"
SERVICES = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]


def test_every_mounted_file_is_there_and_every_volume_declared() -> None:
    declared = yaml.safe_load((FOLDER / "compose.yaml").read_text())["volumes"]
    for name, service in SERVICES.items():
        for volume in service["volumes"]:
            place = volume.split(":")[0]
            if place.startswith("."):
                assert (FOLDER / place).exists() or place == "./artifacts", f"{name}: {place}"
            else:
                assert place in declared or place == "/tmp/argus_socket", f"{name}: {place}"


def test_the_pipeline_names_the_other_services_and_serves_what_they_ask_for() -> None:
    config = load_config(str(FOLDER / "pipeline.yaml"))
    assert config.outputs.mqtt.url == "mqtt://broker"
    assert {"broker", "prometheus", "grafana"} < set(SERVICES)
    target = yaml.safe_load((FOLDER / "prometheus.yml").read_text())["scrape_configs"][0]["static_configs"][0]["targets"][0]
    assert target == f"{config.metrics.names[0]}:{config.metrics.prometheus_port}"
    assert f":{config.metrics.prometheus_port}/healthz" in SERVICES["pipeline"]["healthcheck"]["test"][-1]
    assert SERVICES["pipeline"]["ports"] == [f"{config.view.port}:{config.view.port}"]
    recordings = next(v.split(":")[1] for v in SERVICES["pipeline"]["volumes"] if v.startswith("recordings"))
    assert config.outputs.clips.folder.startswith(recordings)
    source = yaml.safe_load((FOLDER / "grafana/provisioning/datasources/prometheus.yaml").read_text())["datasources"][0]
    assert source["url"] == "http://prometheus:9090"


def test_ports_of_the_others_are_open_to_this_machine_only() -> None:
    for name, service in SERVICES.items():
        assert name == "pipeline" or all(port.startswith("127.0.0.1:") for port in service["ports"])


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed (apt install prometheus)")
def test_promtool_takes_the_settings(tmp_path: Path) -> None:
    shutil.copy(FOLDER / "prometheus.yml", tmp_path)
    shutil.copy(FOLDER.parent / "prometheus" / "alerts.yml", tmp_path)
    done = subprocess.run(["promtool", "check", "config", str(tmp_path / "prometheus.yml")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def has_compose() -> bool:
    return (
        shutil.which("docker") is not None
        and subprocess.run(["docker", "compose", "version"], capture_output=True).returncode == 0
    )


@pytest.mark.skipif(not has_compose(), reason="docker compose is not installed")
def test_compose_takes_the_file() -> None:
    done = subprocess.run(
        ["docker", "compose", "-f", str(FOLDER / "compose.yaml"), "config", "-q"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
