"""Fetches the TensorRT bindings that the contract tests read, as packages by name, into build/contract-wheels.

They are thin extension modules without libnvinfer (about 4 MB each); TensorRT itself is not needed and not fetched.
A release that has no wheel for this Python is skipped, and said.

usage: python tests/contract/fetch_wheels.py
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

#: version -> package. The folder of a wheel is build/contract-wheels/<python tag>/<version>.
WHEELS = {
    "8.6.1": "tensorrt-bindings==8.6.1",
    "10.3.0": "tensorrt-cu12-bindings==10.3.0",
    "10.7.0": "tensorrt-cu12-bindings==10.7.0",
    "11.4.0.106": "tensorrt-cu13-bindings==11.4.0.106",
}
TAG = f"cp{sys.version_info[0]}{sys.version_info[1]}"
FOLDER = Path(__file__).resolve().parents[2] / "build" / "contract-wheels" / TAG


def fetch() -> int:
    missing = 0
    for version, package in WHEELS.items():
        target = FOLDER / version
        if (target / "tensorrt_bindings").is_dir():
            continue
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"]
        command += ["--only-binary", ":all:", "--target", str(target), package]
        if subprocess.run(command, check=False).returncode != 0:
            missing += 1
            print(f"{package}: no wheel for {TAG} could be fetched; its contract tests will be skipped")
    return missing


if __name__ == "__main__":
    # A missing wheel is no failure: older Pythons have no wheel of the newest release.
    fetch()
    sys.exit(0)
