"""P10, P12 and P13: GStreamer, the service's sandbox, and a container."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import List, Sequence

from edgedla.acceptance.steps import Context
from edgedla.acceptance.values import Finding, Skip
from edgedla.targets.board import on_jetson

#: What runtime/sources/gstreamer.py names on a Jetson.
ELEMENTS = (
    "nvarguscamerasrc",
    "nvv4l2decoder",
    "nvvidconv",
    "nvjpegdec",
    "v4l2src",
    "rtspsrc",
    "videoconvert",
    "appsink",
)
#: The conversion of a stream on a Jetson, from a test picture in place of the decoder.
CONVERSION = (
    "videotestsrc num-buffers=30 ! video/x-raw,format=NV12,width=1920,height=1080 ! nvvidconv flip-method=2 ! "
    "video/x-raw,format=BGRx,width=640,height=360 ! videoconvert ! video/x-raw,format=BGR ! fakesink"
)


def media(context: Context) -> List[Finding]:
    """P10: the elements that edgedla's pipelines name, and one of them run."""
    if shutil.which("gst-inspect-1.0") is None:
        raise Skip("no gst-inspect-1.0 (package gstreamer1.0-tools)")
    expected = "there" if on_jetson() else None
    findings = []
    for element in ELEMENTS:
        code, _ = _run(("gst-inspect-1.0", "--exists", element), 15)
        findings.append(Finding(element, "there" if code == 0 else "missing", expected, "runtime/sources/gstreamer.py"))
    if on_jetson() and not context.quick:
        code, text = _run(("gst-launch-1.0", "-q", *CONVERSION.split()), 20)
        findings.append(
            Finding("nvvidconv scales and turns", f"exit code {code}", "exit code 0", CONVERSION, {"output": text})
        )
    return findings


def service(context: Context) -> List[Finding]:
    """P12: edgedla's own look at the board inside of the unit's sandbox."""
    if shutil.which("systemd-run") is None:
        raise Skip("no systemd-run")
    if os.geteuid() != 0:
        raise Skip("systemd-run with a sandbox needs root: sudo edgedla doctor --deep")
    code, text = _run(
        ("systemd-run", "--wait", "--pipe", "--quiet", "-p", "ProtectSystem=strict", "-p", "ProtectHome=true",
         "-p", "NoNewPrivileges=true", "-p", "StateDirectory=edgedla edgedla/tmp",
         "-E", "TMPDIR=/var/lib/edgedla/tmp", "-p", "SupplementaryGroups=video render",
         sys.executable, "-m", "edgedla.acceptance.child", "P2", f"{context.work}/context.json", "/var/lib/edgedla/tmp/p2.json"),
        20,
    )  # fmt: skip
    return [
        Finding(
            "P2 in the sandbox",
            f"exit code {code}",
            "exit code 0",
            "jetson/edgedla-pipeline@.service",
            {"output": text},
        )
    ]


def container(context: Context) -> List[Finding]:
    """P13: `edgedla doctor` in the image that the user names."""
    if not context.container:
        raise Skip("no image was named: --container IMAGE")
    if shutil.which("docker") is None:
        raise Skip("no docker")
    code, text = _run(
        ("docker", "run", "--rm", "--runtime", "nvidia", "-v", "/etc/nv_tegra_release:/etc/nv_tegra_release:ro",
         context.container, "doctor", "--format", "json"),
        18,
    )  # fmt: skip
    return [
        Finding("doctor in the container", f"exit code {code}", "exit code 0", "jetson/Dockerfile", {"output": text})
    ]


def _run(command: Sequence[str], limit_s: float) -> tuple[int | None, str]:
    try:
        done = subprocess.run(
            list(command), capture_output=True, text=True, errors="replace", timeout=limit_s, check=False
        )
    except subprocess.TimeoutExpired:
        return None, f"out of time after {limit_s:g} s"
    return done.returncode, (done.stdout + done.stderr)[-4000:]
