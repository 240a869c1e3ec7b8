"""A Home Assistant with edgedla's events, for the picture of the tutorial.

It runs in a Python of its own, which the variable EDGEDLA_HOME_ASSISTANT names; the picture was taken with Python 3.13 and
`pip install homeassistant==2025.4.4 home-assistant-frontend==20250411.0 paho-mqtt==2.1.0 aiohttp_cors==0.7.0`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Iterator

PYTHON = os.environ.get("EDGEDLA_HOME_ASSISTANT", "")
#: Ports of the broker and of Home Assistant.
BROKER, PORT = 18831, 18123
#: A page of this machine needs no password.
CONFIGURATION = f"""\
homeassistant:
  name: Home
  time_zone: UTC
  auth_providers:
    - type: trusted_networks
      trusted_networks: [127.0.0.1]
      allow_bypass_login: true
http: {{server_host: 127.0.0.1, server_port: {PORT}}}
frontend:
config:
"""
PIPELINE = f"""\
version: 2
sources:
  gate: {{uri: "synthetic://?rate=10&width=400&height=400&seed=1"}}
  yard: {{uri: "synthetic://?rate=10&width=400&height=400&seed=2"}}
models:
  objects: {{artifact: detector, decode: {{kind: yolov8, reg_max: 8, score: 0.01}}}}
events:
  left-half: {{score: 0, zone: [[0, 0], [0.5, 0], [0.5, 1], [0, 1]], frames: 3}}
outputs:
  mqtt: {{url: "mqtt://127.0.0.1:{BROKER}", topic: "site/{{source}}", results: false, discovery: homeassistant}}
"""


async def serve(folder: Path) -> None:
    """Home Assistant with a broker, a user, and nothing left to set up; until the process is ended."""
    from homeassistant import bootstrap, runner

    kept = folder / ".storage"
    kept.mkdir(parents=True)
    (folder / "configuration.yaml").write_text(CONFIGURATION)
    when = "2026-01-01T00:00:00+00:00"
    broker = {
        "domain": "mqtt",
        "entry_id": "broker",
        "title": "broker",
        "data": {"broker": "127.0.0.1", "port": BROKER},
        "created_at": when,
        "modified_at": when,
        "disabled_by": None,
        "discovery_keys": {},
        "options": {},
        "source": "user",
        "pref_disable_new_entities": False,
        "pref_disable_polling": False,
        "subentries": [],
        "unique_id": None,
        "version": 1,
        "minor_version": 2,
    }
    for name, version, minor, data in (
        ("core.config_entries", 1, 5, {"entries": [broker]}),
        ("onboarding", 4, 1, {"done": ["user", "core_config", "analytics", "integration"]}),
    ):
        (kept / name).write_text(json.dumps({"version": version, "minor_version": minor, "key": name, "data": data}))
    settings = runner.RuntimeConfig(config_dir=str(folder), skip_pip=True)
    hass = await bootstrap.async_setup_hass(settings)
    await hass.auth.async_create_user("Home", group_ids=["system-admin"])
    await hass.async_start()
    await asyncio.Event().wait()


@contextlib.contextmanager
def running(folder: Path) -> Iterator[None]:
    """A broker, Home Assistant and the pipeline; `folder` has the detector.

    Raises:
        RuntimeError: mosquitto or Home Assistant is missing.
    """
    mosquitto = shutil.which("mosquitto") or "/usr/sbin/mosquitto"
    if not PYTHON or not os.path.exists(mosquitto):
        raise RuntimeError("the picture needs mosquitto, and a Python with Home Assistant that EDGEDLA_HOME_ASSISTANT names")
    (folder / "pipeline.yaml").write_text(PIPELINE)
    commands = (
        [mosquitto, "-p", str(BROKER)],
        [PYTHON, __file__, str(folder / "home")],
        [sys.executable, "-m", "edgedla", "run", "pipeline.yaml"],
    )
    started = [subprocess.Popen(c, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for c in commands]
    try:
        yield
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
