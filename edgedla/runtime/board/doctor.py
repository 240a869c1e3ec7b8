"""Looks at this machine and says what is missing for edgedla, each finding with its remedy. Changes nothing."""

from __future__ import annotations

import ctypes
import dataclasses
import importlib
import os
import platform
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

from edgedla.documents import header
from edgedla.errors import EdgedlaError
from edgedla.quantization.session import import_onnxruntime
from edgedla.targets.board import Board, this_board
from edgedla.targets.device_files import core_folder, root


@dataclass(frozen=True)
class Check:
    """One finding. `state` is ok, warn (something will be worse), fail (something will not work) or info."""

    name: str
    state: str
    found: str
    remedy: str = ""

    def to_dict(self) -> Dict[str, str]:
        return dict(self.__dict__)


def doctor(base: Optional[Path] = None) -> Tuple[Check, ...]:
    """All findings, in the order of CHECKS."""
    base = base or root()
    board = this_board(base)
    found: List[Check] = []
    for check in CHECKS:
        found.extend(check(board, base))
    return tuple(found)


def _machine(board: Optional[Board], base: Path) -> List[Check]:
    if board is None:
        text = f"no Jetson ({platform.machine()}, Python {platform.python_version()})"
        return [
            Check(
                "machine", "info", text, "check, place and host builds work here; engines are built and run on a Jetson"
            )
        ]
    checks = [Check("machine", "ok", f"{board.model}, L4T {board.l4t or 'unknown'}")]
    if board.target is None:
        checks.append(Check("module", "warn", "edgedla does not know this module", "give --target to every command"))
    else:
        checks.append(Check("module", "ok", board.target))
    if board.jetpack is None:
        checks.append(
            Check("JetPack", "warn", f"L4T {board.l4t} is not in the release table", "give --trt to every command")
        )
    else:
        checks.append(Check("JetPack", "ok", board.jetpack))
    return checks


def _platform(board: Optional[Board], base: Path) -> List[Check]:
    if board is None or board.target is None or board.jetpack is None:
        return []
    from edgedla.targets import platform_for

    try:
        pair = platform_for(board.target, jetpack=board.jetpack)
    except EdgedlaError as e:
        return [Check("DLA in this release", "warn", e.what)]
    if not pair.has_dla:
        return [
            Check(
                "DLA in this release",
                "fail",
                pair.no_dla or "none",
                "use the GPU, or a release with DLA (`edgedla targets`)",
            )
        ]
    return [Check("DLA in this release", "ok", f"{pair.module.dla_cores} cores, TensorRT {pair.release.trt_text}")]


def _cores(board: Optional[Board], base: Path) -> List[Check]:
    if board is None:
        return []
    there = [c for c in range(4) if core_folder(c, base) is not None]
    if there:
        return [Check("DLA cores in the kernel", "ok", ", ".join(f"nvdla{c}" for c in there))]
    remedy = (
        "start the container with --runtime nvidia"
        if board.container
        else "the module has none, or its driver did not start (dmesg)"
    )
    return [Check("DLA cores in the kernel", "warn" if board.container else "fail", "none", remedy)]


def _library(board: Optional[Board], base: Path) -> List[Check]:
    if board is None:
        return []
    checks = []
    for name, what, package in (
        ("libcudla.so.1", "standalone loadables", "apt install cuda-libraries-*; containers: --runtime nvidia"),
        (
            "libnvdla_compiler.so",
            "building for the DLA",
            "apt install nvidia-l4t-dla-compiler; containers: mount it or --runtime nvidia",
        ),
    ):
        try:
            ctypes.CDLL(name)
            checks.append(Check(name, "ok", "loads"))
        except OSError as e:
            checks.append(Check(name, "fail", f"{what} will not work: {e}", package))
    return checks


def _module(name: str, label: str, needed: bool, remedy: str) -> Check:
    try:
        found = import_onnxruntime() if name == "onnxruntime" else importlib.import_module(name)
    except Exception as e:
        # A broken installation raises anything here, not only ImportError.
        return Check(label, "fail" if needed else "info", f"cannot be imported: {e}", remedy)
    return Check(label, "ok", str(getattr(found, "__version__", getattr(found, "VERSION_TEXT", "found"))))


def _python(board: Optional[Board], base: Path) -> List[Check]:
    jetson = board is not None
    venv = sys.prefix != sys.base_prefix
    hint = "it comes with JetPack (apt install python3-libnvinfer)" + (
        "; make the venv with --system-site-packages" if venv else ""
    )
    checks = [
        _module("tensorrt", "TensorRT", jetson, hint if jetson else "not needed on a laptop: builds are simulated"),
        _module("pycuda", "pycuda", jetson, "PATH=/usr/local/cuda/bin:$PATH pip install 'edgedla[jetson]'"),
        _module("onnxruntime", "ONNX Runtime", not jetson, "pip install 'edgedla[host]'"),
        _module("highspy", "HiGHS", False, "pip install highspy; without it the slower solver is used"),
    ]
    return checks


def _opencv(board: Optional[Board], base: Path) -> List[Check]:
    found = _module(
        "cv2", "OpenCV", True, "on a Jetson: apt install python3-opencv; elsewhere: pip install 'edgedla[camera]'"
    )
    if "numpy" in found.found.lower() and found.state != "ok":
        # JetPack's and Ubuntu's are built with NumPy 1.
        return [dataclasses.replace(found, remedy="pip install 'numpy<2': this OpenCV is built with NumPy 1")]
    if found.state != "ok":
        return [found]
    from edgedla.runtime.sources.opencv import has_gstreamer

    if has_gstreamer():
        return [found, Check("OpenCV with GStreamer", "ok", "yes")]
    launch = shutil.which("gst-launch-1.0")
    remedy = "pip uninstall opencv-python opencv-python-headless, then use JetPack's (venv with --system-site-packages)"
    if launch:
        text = "no: cameras and streams are read through gst-launch-1.0, one copy a frame more"
        return [found, Check("OpenCV with GStreamer", "warn" if board else "info", text, remedy if board else "")]
    text = "no, and no gst-launch-1.0: csi:// will not work"
    remedy = remedy if board else "apt install gstreamer1.0-tools gstreamer1.0-plugins-base gstreamer1.0-plugins-good"
    return [found, Check("OpenCV with GStreamer", "fail" if board else "info", text, remedy)]


def _camera(board: Optional[Board], base: Path) -> List[Check]:
    nodes = sorted(str(p.name) for p in (base / "dev").glob("video[0-9]*")) if (base / "dev").is_dir() else []
    if nodes:
        unreadable = [n for n in nodes if not os.access(base / "dev" / n, os.R_OK)]
        if unreadable:
            return [
                Check(
                    "camera",
                    "fail",
                    f"no permission for {', '.join(unreadable)}",
                    "sudo usermod -aG video $USER, then log in again",
                )
            ]
        return [Check("camera", "ok", ", ".join(nodes))]
    return [
        Check(
            "camera",
            "warn" if board else "info",
            "no /dev/video*",
            "plug one in; a CSI camera needs its device tree (jetson-io.py)",
        )
    ]


def _groups(board: Optional[Board], base: Path) -> List[Check]:
    if board is None or os.geteuid() == 0:
        return []
    import grp

    mine = {g.gr_name for g in grp.getgrall() if g.gr_gid in os.getgroups()}
    missing = [g for g in ("video", "render") if g not in mine and any(x.gr_name == g for x in grp.getgrall())]
    if missing:
        return [
            Check(
                "groups",
                "fail",
                f"you are not in {', '.join(missing)}",
                f"sudo usermod -aG {','.join(missing)} $USER, then log in again",
            )
        ]
    return [Check("groups", "ok", "video, render")]


def _container(board: Optional[Board], base: Path) -> List[Check]:
    if board is None or not board.container:
        return []
    return [
        Check(
            "container", "info", "runs inside one", "DLA and cameras need --runtime nvidia and --device for each camera"
        )
    ]


def _clocks(board: Optional[Board], base: Path) -> List[Check]:
    if board is None:
        return []
    from edgedla.runtime.board.monitor import samples

    sample = next(samples(0.05, 1, base, use_tegrastats=False))
    if not sample.clocks_mhz and not sample.warnings:
        return [
            Check("clocks and power mode", "info", "unknown: no clock can be read here", "sudo jetson_clocks --show")
        ]
    if not sample.warnings:
        return [Check("clocks and power mode", "ok", sample.power_mode or "locked")]
    return [Check("clocks and power mode", "warn", w) for w in sample.warnings]


#: Every check takes (board or None, root) and returns findings. To add one, write it above and name it here.
CHECKS: Tuple[Callable[[Optional[Board], Path], List[Check]], ...] = (
    _machine, _platform, _cores, _library, _python, _opencv, _camera, _groups, _container, _clocks,
)  # fmt: skip


def summary(checks: Tuple[Check, ...]) -> Dict[str, Any]:
    """The document of `edgedla doctor --format json`."""
    return {
        **header("edgedla.doctor"),
        "ok": not any(c.state == "fail" for c in checks),
        "checks": [c.to_dict() for c in checks],
    }
