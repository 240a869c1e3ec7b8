"""The compose file: what it mounts is there, names and ports fit together, and each tool's own reader takes its settings."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import List

import pytest
import yaml

from edgedla.runtime.pipeline.config import load_config
from tests.ports import free_port
from tests.runtime.waiting import until

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
    boards = yaml.safe_load((FOLDER / "grafana/provisioning/dashboards/edgedla.yaml").read_text())["providers"][0]
    shown = next(v.split(":")[1] for v in SERVICES["grafana"]["volumes"] if "dashboard.json" in v)
    assert shown.startswith(boards["options"]["path"] + "/")


def test_ports_of_the_others_are_open_to_this_machine_only() -> None:
    for name, service in SERVICES.items():
        assert name == "pipeline" or all(port.startswith("127.0.0.1:") for port in service["ports"])


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed (apt install prometheus)")
def test_promtool_takes_the_settings(tmp_path: Path) -> None:
    shutil.copy(FOLDER / "prometheus.yml", tmp_path)
    shutil.copy(FOLDER.parent / "prometheus" / "alerts.yml", tmp_path)
    done = subprocess.run(["promtool", "check", "config", str(tmp_path / "prometheus.yml")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def compose() -> List[str]:
    """The command of whichever Docker Compose is here; [] without one."""
    for command in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(command[0]) and subprocess.run([*command, "version"], capture_output=True).returncode == 0:
            return command
    return []


COMPOSE = compose()


def asked_of_compose(path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMPOSE, "-f", str(path), "config"], capture_output=True, text=True)


@pytest.mark.skipif(not COMPOSE, reason="docker compose is not installed (apt install docker-compose)")
def test_compose_takes_the_file(tmp_path: Path) -> None:
    done = asked_of_compose(FOLDER / "compose.yaml")
    assert done.returncode == 0, done.stderr
    read = yaml.safe_load(done.stdout)
    assert set(read["services"]) == set(SERVICES)
    assert read["services"]["pipeline"]["runtime"] == "nvidia"
    wrong = tmp_path / "compose.yaml"
    wrong.write_text((FOLDER / "compose.yaml").read_text().replace("healthcheck:", "health_check:"))
    refused = asked_of_compose(wrong)
    assert refused.returncode != 0
    assert "health_check" in refused.stderr, "it reads the names of settings"


@pytest.mark.skipif(shutil.which("mosquitto") is None, reason="mosquitto is not installed")
def test_mosquitto_starts_with_the_settings_and_keeps_states_over_a_restart() -> None:
    publish = pytest.importorskip("paho.mqtt.publish", reason="paho-mqtt is not installed")
    subscribe = pytest.importorskip("paho.mqtt.subscribe")
    given, port = (FOLDER / "mosquitto.conf").read_text(), free_port()
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder, "mosquitto.conf")
        # As in its image, but for the port, the folder and, for root, who it becomes.
        text = given.replace("listener 1883", f"listener {port} 127.0.0.1").replace("/mosquitto/data/", f"{folder}/")
        settings.write_text(text + ("user root\n" if os.geteuid() == 0 else ""))
        for turn in range(2):
            broker = subprocess.Popen(["mosquitto", "-c", str(settings)], stderr=subprocess.DEVNULL)
            try:
                assert until(lambda: answers(port)), "mosquitto does not start"
                if turn == 0:
                    publish.single("site/status", "online", qos=1, retain=True, hostname="127.0.0.1", port=port)
                else:
                    kept = subscribe.simple("site/status", hostname="127.0.0.1", port=port)
                    assert (kept.payload, kept.retain) == (b"online", True)
            finally:
                broker.terminate()
                assert broker.wait(10) == 0


def answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False
