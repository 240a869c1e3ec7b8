"""Fetches the TensorRT bindings that the contract tests read, as packages by name, into build/contract-wheels.

They are thin extension modules without libnvinfer (about 4 MB each). Those of 8.4, 8.5 and 8.6.0 are published only in wheels with
all of TensorRT (550 to 820 MB), so they are fetched on request, and the rest of the wheel is dropped; --whole keeps it, for
ask_parser.py. A release that has no wheel for this Python is skipped, and said.

usage: python tests/contract/fetch_wheels.py [--large | --whole]
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

#: version -> package. The folder of a wheel is build/contract-wheels/<python tag>/<version>.
WHEELS = {
    "8.6.1": "tensorrt-bindings==8.6.1",
    "10.3.0": "tensorrt-cu12-bindings==10.3.0",
    "10.7.0": "tensorrt-cu12-bindings==10.7.0",
    "11.4.0.106": "tensorrt-cu13-bindings==11.4.0.106",
}
#: The same of wheels with all of TensorRT, for Python 3.8 to 3.10. JetPack 5.1 has 8.5.2.2.
LARGE = {
    "8.4.1.5": "nvidia-tensorrt==8.4.1.5",
    **{version: f"tensorrt=={version}" for version in ("8.5.1.7", "8.5.2.2", "8.5.3.1", "8.6.0")},
}
TAG = f"cp{sys.version_info[0]}{sys.version_info[1]}"
FOLDER = Path(__file__).resolve().parents[2] / "build" / "contract-wheels" / TAG


def fetch() -> None:
    for version, package in WHEELS.items():
        target = FOLDER / version
        if (target / "tensorrt_bindings").is_dir():
            continue
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"]
        command += ["--only-binary", ":all:", "--target", str(target), package]
        if subprocess.run(command, check=False).returncode != 0:
            print(f"{package}: no wheel for {TAG} could be fetched; its contract tests will be skipped")


def fetch_large(whole: bool = False) -> None:
    """The bindings alone; or, in the folder `whole` beside them, the module `tensorrt` with its libraries."""
    for version, package in LARGE.items():
        target = FOLDER / version / "tensorrt_bindings"
        kept = FOLDER / version / "whole"
        if target.is_dir() and (kept.is_dir() or not whole):
            continue
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
            done = subprocess.run([*command, "--dest", folder, package], check=False)
            wheel = next(Path(folder).glob("*.whl"), None)
            if done.returncode or wheel is None:
                print(f"{package}: no wheel for {TAG} could be fetched; its contract tests will be skipped")
                continue
            with zipfile.ZipFile(wheel) as archive:
                bindings = archive.read("tensorrt/tensorrt.so")
                if whole:
                    archive.extractall(kept)
        target.mkdir(parents=True, exist_ok=True)
        (target / "tensorrt.so").write_bytes(bindings)
        (target / "__init__.py").write_text(f'from .tensorrt import *\n\n__version__ = "{version}"\n')


if __name__ == "__main__":
    # A missing wheel is no failure: older Pythons have no wheel of the newest release.
    fetch()
    if {"--large", "--whole"} & set(sys.argv[1:]):
        fetch_large(whole="--whole" in sys.argv[1:])
