"""What the review of version 0.1 saw, each finding as a reproducer over 0.1's own modules: `python reproducers.py NUMBER`.

Run by board_findings.py in a checkout of 0.1 (the current folder). The fakes are today's: they learned what boards do. A
reproducer that returns did not meet the fault; one that raises says how it shows.
"""

from __future__ import annotations

import gc
import os
import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Callable, Iterator, List, Tuple

import numpy as np
from stage import (
    GIVEN,
    JETSON,
    OLD,
    ONE,
    PLAIN,
    TWO,
    built,
    dla_runner,
    dry_run,
    fake_tensorrt,
    first_sample,
    plan,
    runner_with_911,
    script,
    tree,
)


def refusal(call: Callable[[], Any]) -> str:
    """The first line of the error with which a call ends."""
    try:
        call()
    except Exception as e:
        return str(e).splitlines()[0]
    return "no error"


def finding_2() -> None:
    dla_runner(b"FAKE\nin b' 16\nin a' 32\nout y' 32\n", TWO)


def finding_3() -> None:
    from edgedla.runtime.board import this_board

    devices = {"dev/nvmap": "", ".dockerenv": "", "sys/devices/platform/bus@0/13e00000.host1x/15880000.nvdla0/uevent": ""}
    assert this_board(tree(devices)) is not None, "a container with the DLA's devices is no Jetson: auto builds a simulation"


def finding_4() -> None:
    text = dry_run()
    missing = [p for p in ("nvidia-l4t-dla-compiler", "libcudla", "cuda-nvcc", "libcurand-dev") if p not in text]
    assert not missing, f"setup.sh never installs {', '.join(missing)}"


def finding_5() -> None:
    text = (OLD / "jetson" / "Dockerfile").read_text()
    assert "r10.3.0-devel" in text, "JetPack 6.1 and 6.2 (TensorRT 10.3) get the image of TensorRT 8.6.2"


def finding_6() -> None:
    text = (OLD / "jetson" / "Dockerfile").read_text()
    assert "-m venv" in text, "the image installs with the distribution's pip (20.0.2 on JetPack 5; refused on Ubuntu 24.04)"


def finding_7() -> None:
    # The fake takes only memory that came from mem_alloc, as every sample of NVIDIA registers.
    os.environ["FAKE_CUDLA_MEMORY"] = "device"
    dla_runner(PLAIN, ONE)


def finding_8() -> None:
    fake = fake_tensorrt("8.5.2")
    built(plan("8.5.2"))
    gc.collect()
    crashes = [c for c in fake.world.calls if c.startswith("CRASH")]
    assert not crashes, crashes[0]


def finding_9() -> None:
    from edgedla.builder.plan import LayerPlan

    fake_tensorrt("10.3.0")
    made = plan("10.3.0")
    built(replace(made, layers=(*made.layers, LayerPlan("renamed", "CONVOLUTION", "DLA0", None, "dla", ("g",)))))


def finding_10() -> None:
    rails = {"VDD_GPU_SOC": (19000, 400), "VDD_CPU_CV": (19000, 300), "VIN_SYS_5V0": (5000, 1822), "VDDQ_VDD2_1V8AO": (5000, 218)}
    files = {}
    for i, (name, (volts, amps)) in enumerate(rails.items(), 1):
        at = f"sys/class/hwmon/hwmon3/{{}}{i}_{{}}"
        files |= {at.format("in", "label"): name, at.format("in", "input"): str(volts), at.format("curr", "input"): str(amps)}
    total = first_sample(files).power_total_mw
    assert abs(total - 22410) < 1, f"total {total:.0f} mW, of which VDDQ_VDD2_1V8AO is counted twice (22410)"


def finding_11() -> None:
    from edgedla.runtime.board import known_mode

    assert known_mode("MODE_10W_DESKTOP", ("10W", "15W", "20W")) is not None, "MODE_10W_DESKTOP is no mode of a Xavier NX"


LOCKED = {
    "sys/class/devfreq/17000000.ga10b/cur_freq": "1300500000",
    "sys/class/devfreq/17000000.ga10b/min_freq": "1300500000",
    "sys/class/devfreq/17000000.ga10b/max_freq": "1300500000",
    "sys/class/devfreq/15340000.vic/cur_freq": "115200000",
    "sys/class/devfreq/15340000.vic/max_freq": "729600000",
}


def finding_12() -> None:
    locked = [w for w in first_sample(LOCKED).warnings if "not locked" in w]
    assert not locked, locked[0]


def finding_13() -> None:
    at = "sys/class/thermal/cooling_device0/"
    warnings = first_sample({f"{at}type": "cpu-throttle-alert", f"{at}cur_state": "1"}).warnings
    assert any("throttl" in w for w in warnings), "a board that throttles from the first sample on gets no warning"


def finding_14() -> None:
    text = (OLD / "rules" / "trtexec.yaml").read_text()
    row = next(line for line in text.splitlines() if '{first: "8.5", last: "8.5"' in line)
    assert "[LINEAR" in row, f"a script for JetPack 5.1 names DLA_LINEAR, which trtexec 8.5.2 refuses: {row.strip()}"


def finding_15() -> None:
    from edgedla.builder.plan import IoPlan

    made = plan("8.5.2", "standalone", "int8")
    second = IoPlan("more", False, (1, 8, 8, 8), "INT8", "DLA_LINEAR", 0.01)
    line = next(x for x in script(io=(*made.io, second)).splitlines() if "--outputIOFormats" in x)
    assert line.count("int8") == 1, f"trtexec 8.5 throws on as many output formats as these with one input: {line.strip()}"


def finding_16() -> None:
    from edgedla.runtime.board import this_board

    files = {
        **JETSON,
        "etc/nv_tegra_release": "# R36 (release), REVISION: 4.2, GCID: 1",
        "proc/device-tree/model": "Forecr DSBOARD",
    }
    files["proc/device-tree/compatible"] = "nvidia,p3737-0000+p3701-0005\0nvidia,tegra234\0"
    board = this_board(tree(files))
    assert board is not None and board.jetpack and board.target, f"L4T 36.4.2 on a carrier of Forecr is {board}"  # noqa: PT018


def finding_17() -> None:
    unit = (OLD / "jetson" / "edgedla-pipeline@.service").read_text()
    assert "TMPDIR=" in unit, "ProtectSystem=strict makes /tmp read-only, and nvcc writes there: no CUDA preprocessing"


def finding_18() -> None:
    from edgedla.runtime.sources.gstreamer import pipeline_head
    from edgedla.runtime.sources.uri import parse_source

    uri = parse_source("rtsp://camera/1?width=640&height=360&flip=rotate-180&codec=h264")
    text = pipeline_head(uri, on_jetson=True)
    soft = [e for e in ("videoscale", "videoflip") if e in text]
    assert not soft, f"on a Jetson {' and '.join(soft)} work on the CPU"


def finding_19() -> None:
    flags: List[Any] = []
    from edgedla.runtime.cuda_memory import CudaContext

    context = CudaContext.__new__(CudaContext)
    context.driver = SimpleNamespace(Stream=lambda *given: flags.append(given))
    context.stream()
    assert any(given and given[0] == 1 for given in flags), f"streams are made with the flags {flags[0]}: blocking ones"


def finding_20() -> None:
    runner = runner_with_911()
    text = refusal(lambda: runner.wait(runner.submit(GIVEN)))
    assert "0x40000002" in text, f"the DLA's own error is lost: {text}"


def finding_21() -> None:
    from edgedla.runtime.pool import Pool
    from edgedla.runtime.runners.fake import FakeRunner

    runner = runner_with_911()
    other = FakeRunner(runner.bindings, 0.0, lambda given: {"y": np.zeros(32, np.uint8)}, name="GPU")
    pool = Pool([runner, other])
    pool.submit(GIVEN)
    try:
        done = pool.collect(5)
    except Exception:
        return
    raise AssertionError(f"after 911, which leaves the process broken, {done and done.runner} takes the work in the same process")


def finding_22() -> None:
    fake_tensorrt("10.3.0")

    def progress(phase: str) -> None:
        # As Python does in whatever frame runs when Ctrl-C comes.
        raise KeyboardInterrupt

    try:
        built(plan("10.3.0"), progress=progress)
    except KeyboardInterrupt:
        return
    raise AssertionError("BUILT in spite of Ctrl-C")


def finding_23() -> None:
    assert "python3-opencv" not in dry_run(cv2=True), "Ubuntu's OpenCV takes the place of JetPack's, which is there"


def finding_24() -> None:
    from edgedla.builder.plan import LayerPlan

    layers = tuple(LayerPlan(n, "CONVOLUTION", "GPU", None, "gpu", (n,)) for n in ("scope:conv", "it's", "(Unnamed Layer* 3)"))
    from edgedla.builder.trtexec import trtexec_script

    made = plan("8.6.1")
    text = trtexec_script(replace(made, layers=(*made.layers, *layers))).text
    assert "scope:conv:GPU" in text, "a name with ':' is left out, though trtexec splits at the last one; ' and * go through"


def finding_25() -> None:
    fake = fake_tensorrt("10.3.0")
    registered: List[Any] = []
    fake.init_libnvinfer_plugins = lambda logger, namespace: registered.append(logger)
    for _ in range(2):
        built(plan("10.3.0"))
    assert registered[0] is registered[1], "a logger for each build, whose pointer TensorRT keeps after it is gone"


def finding_26() -> None:
    modes = "< POWER_MODEL ID=1 NAME=MODE_15W >\n< POWER_MODEL ID=4 NAME=MAXN >\n"
    warnings = first_sample({"etc/nvpmodel.conf": modes, "var/lib/nvpmodel/status": "pmode:0001\n"}).warnings
    mode = [w for w in warnings if "nvpmodel" in w]
    assert mode and "-m 4" in mode[0], mode[0] if mode else "no warning"  # noqa: PT018


def finding_27() -> None:
    text = refusal(lambda: dla_runner(b"FAKE\nin a 64\nout y 32\n", ONE))
    assert "stride" in text, f"sizes only: {text}"


def finding_28() -> None:
    fake = fake_tensorrt("8.6.1")
    built(plan("8.6.1", "standalone", "int8"))
    ranges = [c for c in fake.world.calls if "set_dynamic_range" in c]
    assert any("ITensor[image]" in c for c in ranges), "an INT8 input has no dynamic range beside the calibrator"


def finding_29() -> None:
    lines = (
        "Cannot deserialize serialized engine built with EngineCapability::kDLA_STANDALONE, use cuDLA APIs instead",
        "Setting dynamic range is only allowed when there are no Q/DQ layers in the Network",
        "libnvdla_compiler.so: cannot open shared object file: No such file or directory",
        "DLA Error in execute: 7 (Input tensor register failed.)",
        "DataType does not match TensorFormats.",
        "NvMapMemAllocInternalTagged: 1075072515 error 12",
    )
    from edgedla.rules.messages import explain_log

    unknown = [line for line in lines if not explain_log([line])[0]]
    assert not unknown, f"not in the catalogue: {len(unknown)} of {len(lines)}, the first {unknown[0][:60]!r}"


def _cases() -> Iterator[Tuple[int, Callable[[], None]]]:
    for name, value in sorted(globals().items()):
        if name.startswith("finding_"):
            yield int(name.partition("_")[2]), value


CASES = dict(sorted(_cases()))


def main() -> int:
    try:
        CASES[int(sys.argv[1])]()
    except BaseException as e:
        sys.stdout.write(f"{type(e).__name__}: {' '.join(str(e).split())[:300]}\n")
        return 1
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # Runners of 0.1 that failed to open may hold a thread.
    os._exit(code)
