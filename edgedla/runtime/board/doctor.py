"""Examines this machine for what edgedla needs; each finding comes with its remedy. Changes nothing."""

from __future__ import annotations

import ctypes
import dataclasses
import importlib
import os
import platform
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

from edgedla.errors import EdgedlaError
from edgedla.io.documents import header
from edgedla.quantization.session import import_onnxruntime
from edgedla.runtime.sources.cameras import cameras
from edgedla.targets.board import Board, this_board
from edgedla.targets.device_files import core_folder
from edgedla.targets.jetson import root
from edgedla.text.printable import Fields


@dataclass(frozen=True)
class Check(Fields):
    """One finding. `state`: ok, warn (something will be worse), fail (something will not work) or info."""

    name: str
    state: str
    found: str
    remedy: str = ""


_NAME_TARGET = "give --target to every command"
_NAME_TRT = "give --trt to every command"
#: How to start a container so that edgedla can identify its board.
_SHOW_BOARD = (
    "start it with -v /etc/nv_tegra_release:/etc/nv_tegra_release:ro, and with a copy of /proc/device-tree/model: "
    "cat /proc/device-tree/model > /tmp/nv_jetson_model, then -v /tmp/nv_jetson_model:/tmp/nv_jetson_model:ro"
)


def doctor(base: Optional[Path] = None) -> Tuple[Check, ...]:
    """All findings, in the order of CHECKS."""
    base = base or root()
    board = this_board(base)
    return tuple(finding for check in CHECKS for finding in check(board, base))


def _machine(board: Optional[Board], base: Path) -> List[Check]:
    if board is None:
        text = f"no Jetson ({platform.machine()}, Python {platform.python_version()})"
        works = "check, place and host builds work here; engines are built and run on a Jetson"
        return [Check("machine", "info", text, works)]
    checks = [Check("machine", "ok", f"{board.model}, L4T {board.l4t or 'unknown'}")]
    if board.target is None:
        remedy = f"give --target to every command; in a container {_SHOW_BOARD}" if board.container else _NAME_TARGET
        checks.append(Check("module", "warn", "edgedla does not know this module", remedy))
    else:
        checks.append(Check("module", "ok", board.target))
    if board.jetpack is None and board.l4t is None:
        remedy = f"give --trt to every command; in a container {_SHOW_BOARD}" if board.container else _NAME_TRT
        checks.append(Check("JetPack", "warn", "unknown: there is no /etc/nv_tegra_release", remedy))
    elif board.jetpack is None:
        checks.append(Check("JetPack", "warn", f"L4T {board.l4t} is not in the release table", _NAME_TRT))
    else:
        nearest = f", the nearest one: L4T {board.l4t} is not in the release table" if board.jetpack_nearest else ""
        checks.append(Check("JetPack", "ok", board.jetpack + nearest))
    return checks


def _platform(board: Optional[Board], base: Path) -> List[Check]:
    from edgedla.builder.tensorrt.bindings import installed_version

    jetpack, trt = board.release(installed_version()) if board is not None else (None, None)
    if board is None or board.target is None or (jetpack or trt) is None:
        return []
    from edgedla.targets import platform_for

    try:
        pair = platform_for(board.target, jetpack=jetpack, trt=trt)
    except EdgedlaError as e:
        return [Check("DLA in this release", "warn", e.what)]
    if not pair.has_dla:
        remedy = "use the GPU, or a release with DLA (`edgedla targets`)"
        if pair.dla_unknown:
            remedy = "TensorRT counts the cores once it makes a builder"
        return [Check("DLA in this release", "warn" if pair.dla_unknown else "fail", pair.no_dla or "none", remedy)]
    note = f"; {pair.release.note}" if pair.release.note else ""
    text = f"{pair.module.dla_cores} cores, TensorRT {pair.release.trt_text}{note}"
    return [Check("DLA in this release", "ok", text)]


def _cores(board: Optional[Board], base: Path) -> List[Check]:
    if board is None:
        return []
    cores = [c for c in range(4) if core_folder(c, base) is not None]
    if cores:
        return [Check("DLA cores in the kernel", "ok", ", ".join(f"nvdla{c}" for c in cores))]
    no_driver = "the module has none, or its driver did not start (dmesg)"
    remedy = "start the container with --runtime nvidia" if board.container else no_driver
    return [Check("DLA cores in the kernel", "warn" if board.container else "fail", "none", remedy)]


def _library(board: Optional[Board], base: Path) -> List[Check]:
    if board is None:
        return []
    checks = []
    for name, what, package in (
        (
            "libcudla.so.1",
            "standalone loadables",
            "apt install libcudla-11-4 (JetPack 5), libcudla-12-* (6) or libcudla-13-* (7); containers: --runtime nvidia",
        ),
        (
            "libnvdla_compiler.so",
            "building for the DLA, and on JetPack 6 `import tensorrt` itself,",
            "JetPack 6: apt install nvidia-l4t-dla-compiler, in the version of nvidia-l4t-core; JetPack 5 has it in "
            "/usr/lib/aarch64-linux-gnu/tegra; JetPack 7 has no package with it (where 7.2.2's comes from is not on "
            "record: `dpkg -S libnvdla_compiler.so`); a container gets the host's with --runtime nvidia "
            "(a host without it gives an empty file)",
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
        module = import_onnxruntime() if name == "onnxruntime" else importlib.import_module(name)
    except Exception as e:
        # A broken installation may raise anything here, not only ImportError.
        return Check(label, "fail" if needed else "info", f"cannot be imported: {e}", remedy)
    return Check(label, "ok", str(getattr(module, "__version__", getattr(module, "VERSION_TEXT", "found"))))


def _tensorrt(jetson: bool, remedy: str) -> Check:
    """TensorRT imports and makes a builder: without CUDA it does the one and not the other."""
    from edgedla.builder.tensorrt.bindings import why_no_builder

    check = _module("tensorrt", "TensorRT", jetson, remedy)
    why = why_no_builder() if check.state == "ok" else ""
    if not why:
        return check
    text = f"{check.found} imports, cannot make a builder: {why}"
    cuda = "TensorRT needs CUDA's driver and a GPU; a container gets them with --runtime nvidia (Jetson) or --gpus all"
    return Check("TensorRT", "fail" if jetson else "warn", text, cuda if jetson else f"{cuda}; {remedy}")


def _python(board: Optional[Board], base: Path) -> List[Check]:
    from edgedla.builder.tensorrt.bindings import bindings_remedy

    jetson = board is not None
    on_a_laptop = "not needed on a laptop: builds are simulated"
    pycuda = "PATH=/usr/local/cuda/bin:$PATH pip install 'edgedla[jetson]'"
    return [
        _tensorrt(jetson, bindings_remedy() if jetson else on_a_laptop),
        _module("pycuda", "pycuda", jetson, pycuda if jetson else on_a_laptop),
        _module("onnxruntime", "ONNX Runtime", not jetson, "pip install 'edgedla[host]'"),
        _module("highspy", "HiGHS", not jetson, "pip install highspy: `place`, `check` and `deploy` need it"),
    ]


def _release_pair(board: Optional[Board], base: Path) -> List[Check]:
    """Whether this TensorRT belongs to this JetPack: in a container, TensorRT is the image's but the DLA compiler the host's."""
    from edgedla.builder.tensorrt.bindings import installed_version

    installed = installed_version() if board is not None else None
    if board is None or board.jetpack is None or installed is None:
        return []
    from edgedla.targets import parse_version, releases

    row = next(r for r in releases().jetpack if r.version == board.jetpack)
    version = parse_version(".".join(installed.split(".")[:3]))
    if version is not None and row.carries(version):
        return [Check("TensorRT for this JetPack", "ok", f"{installed} belongs to JetPack {row.version}")]
    expected = ".".join(str(n) for n in row.trt)
    text = f"{installed}, JetPack {row.version} has {expected}"
    if version is not None and version > row.trt and (board.jetpack_nearest or not board.container):
        # A way back would end at a release whose DLA is worse, or none.
        return [Check("TensorRT for this JetPack", "info", f"{text}: a separate package; its rules answer here")]
    remedy = f"take the image whose TensorRT is {expected} (jetson/README.md has the table)"
    remedy = remedy if board.container else f"install the TensorRT of JetPack {row.version}"
    text = f"{text}: DLA builds may end in undefined `nvdla::` symbols"
    return [Check("TensorRT for this JetPack", "warn", text, remedy)]


def _compiler(board: Optional[Board], base: Path) -> List[Check]:
    if board is None:
        return []
    if shutil.which("nvcc") or (base / "usr/local/cuda/bin/nvcc").exists():
        return [Check("nvcc", "ok", "CUDA preprocessing can be compiled")]
    text = "not here: frames are preprocessed on the CPU; everything else works"
    remedy = "apt install cuda-nvcc-11-4 (JetPack 5), cuda-nvcc-12-* (6) or cuda-nvcc-13-* (7)"
    return [Check("nvcc", "info", text, remedy)]


def _opencv(board: Optional[Board], base: Path) -> List[Check]:
    remedy = "on a Jetson: apt install python3-opencv; elsewhere: pip install 'edgedla[camera]'"
    opencv = _module("cv2", "OpenCV", True, remedy)
    if "numpy" in opencv.found.lower() and opencv.state != "ok":
        # JetPack's and Ubuntu's OpenCV are built with NumPy 1.
        return [dataclasses.replace(opencv, remedy="pip install 'numpy<2': this OpenCV is built with NumPy 1")]
    if opencv.state != "ok":
        return [opencv]
    if shutil.which("gst-launch-1.0"):
        return [opencv, Check("GStreamer", "ok", "gst-launch-1.0")]
    remedy = "apt install gstreamer1.0-tools gstreamer1.0-plugins-base gstreamer1.0-plugins-good"
    return [opencv, Check("GStreamer", "fail" if board else "info", "no gst-launch-1.0: csi:// will not work", remedy)]


def _camera(board: Optional[Board], base: Path) -> List[Check]:
    nodes = sorted(str(p.name) for p in (base / "dev").glob("video[0-9]*")) if (base / "dev").is_dir() else []
    if not nodes:
        remedy = "plug one in; a CSI camera needs its device tree (jetson-io.py)"
        return [Check("camera", "warn" if board else "info", "no /dev/video*", remedy)]
    unreadable = [n for n in nodes if not os.access(base / "dev" / n, os.R_OK)]
    if unreadable:
        remedy = "sudo usermod -aG video $USER, then log in again"
        return [Check("camera", "fail", f"no permission for {', '.join(unreadable)}", remedy)]
    found = [Check("camera", "warn" if c.remark else "ok", f"{c.line} is {c.told}") for c in cameras(base)]
    return found or [Check("camera", "info", "none gives frames")]


def _groups(board: Optional[Board], base: Path) -> List[Check]:
    if board is None or os.geteuid() == 0:
        return []
    import grp

    mine = {g.gr_name for g in grp.getgrall() if g.gr_gid in os.getgroups()}
    missing = [g for g in ("video", "render") if g not in mine and any(x.gr_name == g for x in grp.getgrall())]
    if missing:
        remedy = f"sudo usermod -aG {','.join(missing)} $USER, then log in again"
        return [Check("groups", "fail", f"you are not in {', '.join(missing)}", remedy)]
    return [Check("groups", "ok", "video, render")]


def _container(board: Optional[Board], base: Path) -> List[Check]:
    if board is None or not board.container:
        return []
    needs = "DLA and cameras need --runtime nvidia and --device for each camera"
    return [Check("container", "info", "runs inside one", needs)]


def _clocks(board: Optional[Board], base: Path) -> List[Check]:
    if board is None:
        return []
    from edgedla.runtime.board.monitor import samples

    sample = next(samples(0.05, 1, base, use_tegrastats=False))
    if not sample.clocks_mhz and not sample.warnings:
        text = "unknown: no clock can be read here"
        return [Check("clocks and power mode", "info", text, "sudo jetson_clocks --show")]
    if not sample.warnings:
        return [Check("clocks and power mode", "ok", sample.power_mode or "locked")]
    return [Check("clocks and power mode", "warn", w) for w in sample.warnings]


#: Every check takes (board or None, root) and returns findings. To add one, write it above and list it here.
CHECKS: Tuple[Callable[[Optional[Board], Path], List[Check]], ...] = (
    _machine,
    _platform,
    _cores,
    _library,
    _python,
    _release_pair,
    _compiler,
    _opencv,
    _camera,
    _groups,
    _container,
    _clocks,
)


def summary(checks: Tuple[Check, ...]) -> Dict[str, Any]:
    """The document of `edgedla doctor --format json`."""
    return {**header("edgedla.doctor"), "ok": not any(c.state == "fail" for c in checks), "checks": [c.to_dict() for c in checks]}
