"""P1 and P2: identifies this board, and tests which libraries work on it."""

from __future__ import annotations

import ctypes
import functools
import glob
import os
import shutil
import subprocess
from pathlib import Path
from typing import Callable, Dict, List, Sequence

from edgedla.acceptance.archive import TENSORRT
from edgedla.acceptance.programs import run_program
from edgedla.acceptance.steps import Context
from edgedla.acceptance.values import Finding, Skip
from edgedla.builder.tensorrt.bindings import dla_cores, installed_version
from edgedla.errors import EdgedlaError
from edgedla.runtime.board.doctor import doctor
from edgedla.runtime.board.tegrastats import PROGRAM
from edgedla.runtime.cuda.cudla_api import Cudla
from edgedla.runtime.cuda.driver import DriverContext
from edgedla.targets import module_for, parse_version, releases
from edgedla.targets.board import this_board
from edgedla.targets.device_files import core_folder, read_board
from edgedla.targets.jetson import FILES, read_text, root

#: The driver prints the version of a core's firmware there (nvdla_debug.c of L4T's kernel). It is no version of the DLA software,
#: which no known file or call states: NVIDIA's release pages do.
FIRMWARE = "sys/kernel/debug/*nvdla?/firmware/version"
#: Files of the kernel and of NVIDIA's tools, relative to the root: they become samples for our readers' tests.
CAPTURED: Sequence[str] = (
    *(place for places in FILES.values() for place in places),
    "etc/nvpmodel.conf",
    "var/lib/nvpmodel/status",
    "proc/meminfo",
    "proc/version",
    "sys/class/devfreq/*/*_freq",
    "sys/class/hwmon/hwmon*/in*_label",
    "sys/class/hwmon/hwmon*/in*_input",
    "sys/class/hwmon/hwmon*/curr*_input",
    "sys/class/hwmon/hwmon*/oc*_event_cnt",
    "sys/class/thermal/thermal_zone*/type",
    "sys/class/thermal/thermal_zone*/temp",
    "sys/class/thermal/cooling_device*/type",
    "sys/class/thermal/cooling_device*/cur_state",
    "sys/devices/system/cpu/cpufreq/policy*/scaling_*_freq",
    "sys/kernel/nvpmodel_clk_cap/*",
    "sys/kernel/nvpmodel_emc_cap/*",
    "sys/devices/platform/*/*.nvdla?/power/runtime_*",
    "sys/devices/platform/*/*/*.nvdla?/power/runtime_*",
    "sys/devices/platform/*/*.nvdla?/acm/clk_cap/*",
    "sys/devices/platform/*/*/*.nvdla?/clk_cap/*",
    FIRMWARE,
)
COMMANDS: Dict[str, Sequence[str]] = {
    "packages": ("dpkg-query", "-W", "nvidia-l4t-*", "libnvinfer*", "libcudla*", "cuda-*", "python3-libnvinfer*"),
    "nvpmodel": ("nvpmodel", "-q"),
    "jetson_clocks": ("jetson_clocks", "--show"),
    "devices": ("sh", "-c", "ls -l /dev/nv* /dev/video*"),
    "groups": ("id", "-Gn"),
}
#: Larger files are not the kernel's small ones.
MAX_CAPTURED = 256 * 1024


def environment(context: Context) -> List[Finding]:
    """P1: copies raw files into files/, and reports edgedla's interpretation of them."""
    base, files = root(), Path(context.files)
    board = this_board(base)
    captured = 0
    for pattern in CAPTURED:
        for path in sorted(glob.glob(str(base / pattern))):
            captured += _capture(Path(path), files / "root" / Path(path).relative_to(base))
    for name, command in COMMANDS.items():
        _say(files / f"{name}.txt", command, 10)
    if (base / PROGRAM).is_file():
        _say(files / "tegrastats.txt", ("timeout", "6", str(base / PROGRAM), "--interval", "500"), 10)
    if board is None:
        raise Skip("this is not a Jetson: neither its release file nor its devices are here")
    listed = board.l4t if any(board.l4t in row.l4t for row in releases().jetpack) else "a listed release"
    findings = [
        Finding("captured files", str(captured)),
        Finding("module", board.target or f"unknown: {board.model}", board.target or "a known module", "rules/targets"),
        Finding("L4T", board.l4t or "unknown", listed, "rules/releases.yaml"),
        Finding("JetPack", board.jetpack or "unknown"),
        Finding("container", str(board.container)),
    ]
    if board.target is not None:
        module = module_for(board.target)
        cores = sum(core_folder(c, base) is not None for c in range(4))
        findings.append(Finding("DLA cores in the kernel", str(cores), str(module.dla_cores), f"rules/targets/{module.id}.yaml"))
        mode = board.mode_of(module)
        caps = {str(core): mhz for core, mhz in board.dla_caps_mhz.items()}
        expected = "a mode on record" if module.power_modes else None
        mode_text = "unknown" if mode is None else "a mode on record" if mode.name in module.power_modes else mode.name
        data = {"nvpmodel": board.power_mode, "caps_mhz": caps}
        findings.append(Finding("power mode", mode_text, expected, f"rules/targets/{module.id}.yaml", data))
    reading = read_board(base)
    findings.append(Finding("power rails", ", ".join(sorted(reading.power_mw)) or "none"))
    findings += [Finding(f"doctor: {c.name}", f"{c.state}: {c.found}") for c in doctor(base)]
    return findings


def libraries(context: Context) -> List[Finding]:
    """P2: loads each library and makes one call."""
    board, trt = this_board(), installed_version()
    findings = [Finding(TENSORRT, trt or "cannot be imported")]
    if trt is not None:
        findings.append(Finding("TensorRT's DLA cores", str(dla_cores()), _module_cores(), "rules/targets"))
        in_kernel = sum(core_folder(core) is not None for core in range(4))
        findings.append(Finding("DLA cores in the kernel", str(in_kernel), _module_cores(), "rules/targets"))
        findings.append(Finding("DLA compiler", _compiler_file()))
        firmware = {Path(f).parts[-3]: read_text(Path(f)) for f in sorted(glob.glob(str(root() / FIRMWARE)))}
        text = ", ".join(f"{core} {version}" for core, version in firmware.items() if version)
        findings.append(Finding("DLA firmware", text or f"unknown: only root reads /{FIRMWARE}"))
        row = next((r for r in releases().jetpack if board is not None and r.version == board.jetpack), None)
        version = parse_version(".".join(trt.split(".")[:3]))
        if row is not None and version is not None:
            expected_trt = ".".join(str(n) for n in row.trt)
            carried = expected_trt if row.carries(version) else trt
            findings.append(Finding("TensorRT of this JetPack", carried, expected_trt, "rules/releases.yaml"))
            # A separate TensorRT package brings a DLA compiler of another version.
            software = row.dla_software if trt.startswith(expected_trt) else None
            findings.append(Finding("DLA software", software or "unknown", source="rules/releases.yaml"))
    for library in ("libcudla.so.1", "libnvdla_compiler.so", "libcuda.so.1"):
        try:
            ctypes.CDLL(library)
            findings.append(Finding(library, "loads", "loads" if board is not None else None, "jetson/setup.sh"))
        except OSError as e:
            findings.append(Finding(library, f"{e}", "loads" if board is not None else None, "jetson/setup.sh"))
    findings.append(_tried("CUDA context", lambda: f"shares memory: {DriverContext().shares_memory}"))
    for core in range(2):
        findings.append(_tried(f"cuDLA device {core}", functools.partial(_cudla, core)))
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    findings.append(Finding("nvcc", _compiled(nvcc, Path(context.work))))
    return findings


def _compiler_file() -> str:
    """Path of the DLA's compiler, as the linker finds it; `dpkg -S` tells which package brings it."""
    try:
        cache = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=False, timeout=20).stdout
    except (OSError, subprocess.TimeoutExpired):
        return "unknown: no ldconfig"
    paths = [line.split("=> ")[1] for line in cache.splitlines() if "libnvdla_compiler" in line and "=> " in line]
    return ", ".join(paths) or "none that the linker knows"


def _module_cores() -> str | None:
    board = this_board()
    return None if board is None or board.target is None else str(module_for(board.target).dla_cores)


def _cudla(core: int) -> str:
    device = Cudla(core)
    try:
        return f"version {device.version()}, {device.backend}"
    finally:
        device.close()


def _tried(name: str, call: Callable[[], str]) -> Finding:
    try:
        return Finding(name, call())
    except EdgedlaError as e:
        return Finding(name, f"{type(e).__name__}: {e.what}")


def _compiled(nvcc: str, work: Path) -> str:
    source = work / "kernel.cu"
    source.write_text("__global__ void k(float* x) { x[threadIdx.x] += 1; }\n", encoding="utf-8")
    code, said = run_program([nvcc, "-cubin", "-arch=sm_87", "-o", str(work / "kernel.cubin"), str(source)], 20)
    if code is None:
        return f"not usable: {said}"
    return "compiles" if code == 0 else f"exit code {code}: {said.strip()[-300:]}"


def _capture(path: Path, target: Path) -> int:
    try:
        data = path.read_bytes()[:MAX_CAPTURED]
    except OSError:
        return 0
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
    return 1


def _say(target: Path, command: Sequence[str], limit_s: float) -> None:
    if shutil.which(command[0]) is None and not os.path.exists(command[0]):
        return
    try:
        done = subprocess.run(list(command), capture_output=True, timeout=limit_s, check=False)
        target.write_bytes(done.stdout[-MAX_CAPTURED:] + done.stderr[-MAX_CAPTURED:])
    except (OSError, subprocess.TimeoutExpired) as e:
        target.write_text(f"not available: {e}\n", encoding="utf-8")
