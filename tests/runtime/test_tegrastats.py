"""tegrastats lines of JetPack 4 to 6, and tegrastats together with the kernel's files."""

from __future__ import annotations

import time

import pytest

from edgedla.runtime.board.monitor import Sample, samples
from edgedla.runtime.board.tegrastats import parse_line

# Written after published output of the releases.
JETPACK_5 = (
    "RAM 13983/62780MB (lfb 424x4MB) SWAP 126/31390MB (cached 0MB) CPU [90%@2201,off] EMC_FREQ 1%@2133 GR3D_FREQ "
    "14%@[407,407] VIC_FREQ 115 NVDLA0_FREQ @1600 APE 174 CV0@-256C CPU@77.281C Tboard@62C tj@77.281C "
    "VDD_GPU_SOC 3150mW/2971mW VDD_CPU_CV 14312mW/12415mW VIN_SYS_5V0 4968mW/5048mW"
)
JETPACK_6 = (
    "05-09-2026 18:42:06 RAM 18207/62841MB (lfb 466x4MB) SWAP 86/31420MB (cached 0MB) CPU [14%@2188] EMC_FREQ 3%@3199 "
    "GR3D_FREQ 0%@[0,0] NVENC off VIC 36%@115 NVDLA0 79%@1408 NVDLA1 off PVA0_FREQ off APE 174 cpu@52.562C "
    "soc2@48.437C tj@52.562C VDD_IN 5139mW/5139mW VDD_CPU_CV 1607mW/1607mW"
)
JETPACK_4 = "RAM 3347/7467MB (lfb 896x4MB) EMC_FREQ 13%@2133 GR3D_FREQ 61% NVDLA0 OFF VDD_IN 5336/4970 thermal@50.187C"


@pytest.mark.parametrize(
    ("text", "clocks", "power", "hottest"),
    [
        (
            JETPACK_5,
            {"dla0": 1600, "emc": 2133, "gpu": 407},
            {"VDD_GPU_SOC": 3150, "VDD_CPU_CV": 14312, "VIN_SYS_5V0": 4968},
            ("CPU", 77.281),
        ),
        (JETPACK_6, {"dla0": 1408, "emc": 3199, "gpu": 0}, {"VDD_IN": 5139, "VDD_CPU_CV": 1607}, ("cpu", 52.562)),
        (JETPACK_4, {"emc": 2133}, {"VDD_IN": 5336}, ("thermal", 50.187)),
    ],
    ids=["JetPack 5", "JetPack 6", "JetPack 4"],
)
def test_tegrastats_lines_are_parsed(text, clocks, power, hottest):
    line = parse_line(text)
    assert line.clocks_mhz == clocks
    assert line.power_mw == power
    name, celsius = hottest
    assert line.temperatures_c[name] == celsius == max(line.temperatures_c.values())


@pytest.mark.parametrize("text", ["", "\x00", "RAM", "@C", "NVDLA0 @x", "9" * 10000])
def test_unknown_tegrastats_lines_give_no_values(text):
    line = parse_line(text)
    assert (line.clocks_mhz, line.temperatures_c, line.power_mw) == ({}, {}, {})


def board(tmp_path, script):
    for name, text in {
        "etc/nv_tegra_release": "# R36 (release), REVISION: 4.3, GCID: 1, BOARD: generic",
        "proc/device-tree/model": "NVIDIA Jetson AGX Orin",
        "usr/bin/tegrastats": script,
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "usr/bin/tegrastats").chmod(0o755)
    return tmp_path


def test_the_monitor_complements_kernel_values_by_tegrastats(tmp_path):
    marker = tmp_path / "pid"
    base = board(tmp_path, f"#!/bin/sh\necho $$ > {marker}\necho '{JETPACK_6}'\nexec sleep 60\n")
    seen = None
    for _ in samples(0.05, 200, base):
        seen = _
        if seen.clocks_mhz:
            break
    assert seen.clocks_mhz["dla0"] == 1408
    assert seen.source == "sysfs+tegrastats"
    assert seen.power_total_mw == 5139, "the input rail holds the others"


def test_tegrastats_ends_with_the_monitor(tmp_path):
    marker = tmp_path / "pid"
    base = board(tmp_path, f"#!/bin/sh\necho $$ > {marker}\nexec sleep 60\n")
    watching = samples(0.05, 0, base)
    next(watching)
    end = time.monotonic() + 60
    while not (marker.exists() and marker.read_text()) and time.monotonic() < end:
        time.sleep(0.02)
    process = tmp_path.__class__(f"/proc/{marker.read_text().strip()}")
    assert process.exists()
    watching.close()
    assert not process.exists()


def test_a_tegrastats_that_does_not_start_is_no_error(tmp_path):
    base = board(tmp_path, "no program")
    (sample,) = samples(0.05, 1, base)
    assert sample.source == "sysfs"


@pytest.mark.parametrize(
    ("rails", "total"),
    [
        ({}, None),
        ({"VDD_IN": 9.0, "VDD_SOC": 3.0}, 9.0),
        # AGX Orin: VDDQ_VDD2_1V8AO is fed by VIN_SYS_5V0, so it is in the total already.
        ({"VDD_GPU_SOC": 3150.0, "VDD_CPU_CV": 14312.0, "VIN_SYS_5V0": 4948.0, "VDDQ_VDD2_1V8AO": 1093.0}, 22410.0),
        ({"GPU": 1.0, "CPU": 2.0, "SOC": 3.0, "CV": 4.0, "VDDRQ": 5.0, "SYS5V": 6.0}, 21.0),
        # A carrier's rails measure more than the module.
        ({"VDD_GPU_SOC": 1.0, "VDD_CPU_CV": 2.0, "VIN_SYS_5V0": 3.0, "CVB_ATX_12V": 9.0}, 6.0),
        # An unknown set has no total.
        ({"VDD_GPU_SOC": 2.0, "VDD_CPU_CV": 3.0}, None),
        ({"VDD_NEW": 2.0}, None),
    ],
)
def test_total_module_power_is_summed_from_its_rails(rails, total):
    assert Sample(1.0, {}, {}, {}, {}, rails, None).power_total_mw == total
