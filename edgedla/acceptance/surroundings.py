"""P10, P12 and P13: GStreamer, the service's sandbox, and a container."""

from __future__ import annotations

import glob
import json
import os
import shutil
import sys
from pathlib import Path
from typing import List

from edgedla.acceptance.archive import unpack
from edgedla.acceptance.decoding import decoding
from edgedla.acceptance.programs import run_program
from edgedla.acceptance.steps import Context
from edgedla.acceptance.values import Finding, Skip
from edgedla.io.data import jetson_dir
from edgedla.targets.jetson import on_jetson

#: Keys of the unit that define its sandbox; those of its start, watchdog and stop belong to a pipeline.
SANDBOX = (
    "SupplementaryGroups StateDirectory NoNewPrivileges ProtectSystem ProtectHome ProtectControlGroups RestrictSUIDSGID "
    "LockPersonality UMask"
).split()
#: The elements that runtime/sources/gstreamer.py uses on a Jetson.
ELEMENTS = ("nvarguscamerasrc", "nvv4l2decoder", "nvvidconv", "nvjpegdec", "v4l2src", "rtspsrc", "videoconvert", "appsink")
#: The conversion of a stream on a Jetson, with a test picture instead of the decoder.
CONVERSION = (
    "videotestsrc num-buffers=30 ! video/x-raw,format=NV12,width=1920,height=1080 ! nvvidconv flip-method=2 ! "
    "video/x-raw,format=NV12,width=640,height=360 ! fakesink"
)
#: The same picture through encoder and decoder, like a network camera's.
CODEC = (
    "videotestsrc num-buffers=60 ! video/x-raw,format=NV12,width=1280,height=720 ! nvvidconv ! "
    "video/x-raw(memory:NVMM),format=NV12 ! nvv4l2h264enc ! h264parse ! nvv4l2decoder ! nvvidconv ! video/x-raw,format=NV12 ! fakesink"
)


def media(context: Context) -> List[Finding]:
    """P10: the elements of edgedla's pipelines, pipelines as on a Jetson, cameras, and videos that are read back."""
    if shutil.which("gst-inspect-1.0") is None:
        raise Skip("no gst-inspect-1.0 (package gstreamer1.0-tools)")
    expected = "there" if on_jetson() else None
    findings = []
    for element in ELEMENTS:
        code, _ = run_program(("gst-inspect-1.0", "--exists", element), 15)
        findings.append(Finding(element, "there" if code == 0 else "missing", expected, "runtime/sources/gstreamer.py"))
    if on_jetson() and not context.quick:
        for title, pipeline, limit_s in (("nvvidconv scales and turns", CONVERSION, 20), ("encoded and decoded", CODEC, 20)):
            code, text = run_program(("gst-launch-1.0", "-q", *pipeline.split()), limit_s)
            # An Orin Nano has no encoder.
            expected_end = "exit code 0" if pipeline is CONVERSION else None
            findings.append(Finding(title, f"exit code {code}", expected_end, pipeline, {"output": text}))
        findings += _cameras()
    return findings if context.quick else [*findings, *decoding(context)]


def _cameras() -> List[Finding]:
    """Three seconds of each V4L2 camera and of the first CSI camera, if present."""
    pipelines = {path: f"v4l2src device={path} num-buffers=30 ! fakesink" for path in sorted(glob.glob("/dev/video*"))[:4]}
    if os.path.exists("/tmp/argus_socket") and pipelines:
        pipelines["CSI"] = "nvarguscamerasrc num-buffers=30 ! fakesink"
    findings = []
    for name, pipeline in pipelines.items():
        code, text = run_program(("gst-launch-1.0", "-q", *pipeline.split()), 8)
        findings.append(Finding(f"camera {name}", f"exit code {code}", None, pipeline, {"output": text}))
    return findings


def service(context: Context) -> List[Finding]:
    """P12: edgedla's own view of the board from inside the unit's sandbox."""
    if shutil.which("systemd-run") is None:
        raise Skip("no systemd-run")
    if os.geteuid() != 0:
        raise Skip("systemd-run with a sandbox needs root: sudo edgedla doctor --deep")
    result = Path(context.work) / "sandbox.json"
    unit = ("systemd-run", "--wait", "--pipe", "--quiet", *sandbox(), "-p", f"ReadWritePaths={context.work}")
    child = (sys.executable, "-m", "edgedla.acceptance.child", "P2", f"{context.work}/context.json", str(result))
    code, text = run_program((*unit, *child), 20)
    findings = [
        Finding("P2 in the sandbox", f"exit code {code}", "exit code 0", "jetson/edgedla-pipeline@.service", {"output": text})
    ]
    if code == 0 and result.is_file():
        inside = json.loads(result.read_text(encoding="utf-8"))["findings"]
        findings += [Finding(f"in the sandbox: {f['name']}", f["seen"], f["expected"], f["source"]) for f in inside]
    return findings


def sandbox() -> List[str]:
    """Options of systemd-run for the unit's user, groups, folders, environment and protection."""
    unit = (jetson_dir() / "edgedla-pipeline@.service").read_text(encoding="utf-8")
    options: List[str] = []
    for line in unit.splitlines():
        key, equals, value = line.partition("=")
        if equals and key in SANDBOX:
            options += ["-p", f"{key}={value}"]
        elif equals and key == "Environment":
            options += [word for pair in value.split() for word in ("-E", pair)]
    return options


def container(context: Context) -> List[Finding]:
    """P13: P2, P4 and P6 in the user's image, as a quick run."""
    if not context.container:
        raise Skip("no image was named: --container IMAGE")
    if shutil.which("docker") is None:
        raise Skip("no docker")
    folder = Path(context.work) / "container"
    folder.mkdir(exist_ok=True)
    shared = ("-v", "/etc/nv_tegra_release:/etc/nv_tegra_release:ro", "-v", f"{folder}:/truth")
    asked = ("doctor", "--deep", "--quick", "--steps", "P2,P4,P6", "-o", "/truth/truth.tar.gz")
    code, text = run_program(("docker", "run", "--rm", "--runtime", "nvidia", *shared, context.container, *asked), 58)
    findings = [Finding("the image", f"exit code {code}", "exit code 0", "jetson/Dockerfile", {"output": text})]
    if code == 0 and (folder / "truth.tar.gz").is_file():
        report, _ = unpack(folder / "truth.tar.gz")
        for step in report["steps"]:
            state = step["state"] if not step["reason"] else f"{step['state']}: {step['reason'].splitlines()[-1]}"
            findings.append(Finding(f"{step['id']} in the image", state, "ok", "jetson/Dockerfile"))
            differing = [f for f in step["findings"] if f["differs"]]
            findings += [Finding(f"in the image: {f['name']}", f["seen"], f["expected"], f["source"]) for f in differing]
    return findings
