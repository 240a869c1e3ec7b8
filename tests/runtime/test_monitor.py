"""Monitor, board and doctor on a made-up /sys and /etc tree."""

from __future__ import annotations

import json

import pytest

from edgedla.errors import EnvironmentMissing, UsageError
from edgedla.runtime.board.doctor import doctor, summary
from edgedla.runtime.board.monitor import samples
from edgedla.targets.board import this_board
from edgedla.targets.device_files import core_active_ms, core_folder, read_board

BPMP = "sys/kernel/debug/bpmp/debug/clk"
ORIN = {
    "etc/nv_tegra_release": "# R36 (release), REVISION: 4.3, GCID: 38968081, BOARD: generic, EABI: aarch64",
    "proc/device-tree/model": "NVIDIA Jetson AGX Orin Developer Kit\0",
    "proc/meminfo": "MemTotal:       64350180 kB\n",
    "etc/nvpmodel.conf": "< POWER_MODEL ID=0 NAME=MAXN >\n< POWER_MODEL ID=1 NAME=MODE_15W >\n< POWER_MODEL ID=2 NAME=MODE_30W >\n",
    "var/lib/nvpmodel/status": "pmode:0002 fmode:fanNull\n",
    "sys/devices/platform/bus@0/13e00000.host1x/15880000.nvdla0/power/runtime_active_time": "1000",
    "sys/devices/platform/bus@0/13e00000.host1x/15880000.nvdla0/power/runtime_suspended_time": "9000",
    "sys/devices/platform/bus@0/13e00000.host1x/15880000.nvdla0/power/runtime_status": "suspended",
    "sys/devices/platform/bus@0/13e00000.host1x/158c0000.nvdla1/power/runtime_active_time": "0",
    "sys/devices/platform/bus@0/13e00000.host1x/158c0000.nvdla1/power/runtime_suspended_time": "10000",
    "sys/devices/platform/bus@0/13e00000.host1x/158c0000.nvdla1/power/runtime_status": "suspended",
    "sys/class/devfreq/17000000.ga10b/cur_freq": "612000000",
    "sys/class/devfreq/17000000.ga10b/max_freq": "1300500000",
    f"{BPMP}/emc/rate": "3199000000",
    f"{BPMP}/emc/max_rate": "3199000000",
    "sys/class/thermal/thermal_zone0/type": "cpu-thermal",
    "sys/class/thermal/thermal_zone0/temp": "51250",
    "sys/class/thermal/thermal_zone1/type": "cv0-thermal",
    "sys/class/thermal/thermal_zone1/temp": "-256000",
    "sys/class/hwmon/hwmon3/in1_label": "VDD_GPU_SOC",
    "sys/class/hwmon/hwmon3/in1_input": "19000",
    "sys/class/hwmon/hwmon3/curr1_input": "500",
    "sys/class/hwmon/hwmon4/oc1_event_cnt": "0",
}


def tree(base, files):
    for name, text in files.items():
        path = base / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return base


@pytest.mark.parametrize(
    ("model", "gib", "target"),
    [
        ("NVIDIA Jetson AGX Orin Developer Kit", 61.4, "agx-orin-64gb"),
        ("NVIDIA Jetson AGX Orin", 29.8, "agx-orin-32gb"),
        ("NVIDIA Jetson Orin NX Engineering Reference Developer Kit", 15.2, "orin-nx-16gb"),
        ("NVIDIA Jetson Orin NX", 7.4, "orin-nx-8gb"),
        ("NVIDIA Jetson Orin Nano Developer Kit", 7.4, "orin-nano-8gb"),
        ("NVIDIA Jetson Xavier NX Developer Kit", 6.7, "xavier-nx-8gb"),
        ("Jetson-AGX", 31.0, "agx-xavier-32gb"),
        ("NVIDIA Jetson AGX Thor Developer Kit", 122.0, "agx-thor-t5000"),
    ],
)
def test_the_module_is_identified_by_model_and_memory(tmp_path, model, gib, target):
    files = {**ORIN, "proc/device-tree/model": model, "proc/meminfo": f"MemTotal: {int(gib * (1 << 20))} kB"}
    assert this_board(tree(tmp_path, files)).target == target


def test_release_and_power_mode_are_read(tmp_path):
    board = this_board(tree(tmp_path, ORIN))
    assert (board.l4t, board.power_mode, board.container) == ("36.4.3", "MODE_30W", False)
    assert board.jetpack == "6.2"


def test_the_busy_share_follows_the_kernels_active_time(tmp_path):
    base = tree(tmp_path, ORIN)
    power = core_folder(0, base) / "power"

    def work(_):
        (power / "runtime_active_time").write_text("1300")
        (power / "runtime_suspended_time").write_text("9700")

    (sample,) = samples(1.0, 1, base, work)
    assert sample.dla_busy == {"dla0": 0.3, "dla1": None}
    assert sample.clocks_mhz["gpu"] == 612.0
    assert sample.temperatures_c == {"cpu-thermal": 51.25}, "a zone that is off has no temperature"
    assert sample.power_mw == {"VDD_GPU_SOC": 9500.0}
    json.dumps(sample.to_dict())


def test_unlocked_clocks_a_slow_mode_and_throttling_give_warnings(tmp_path):
    base = tree(tmp_path, ORIN)
    (sample,) = samples(1.0, 1, base, lambda _: (base / "sys/class/hwmon/hwmon4/oc1_event_cnt").write_text("2"))
    text = "\n".join(sample.warnings)
    assert "gpu 612 of 1300.5 MHz" in text
    assert "nvpmodel -m 0" in text
    assert "throttled" in text


def test_a_quiet_board_has_no_warnings(tmp_path):
    files = {**ORIN, "sys/class/devfreq/17000000.ga10b/cur_freq": "1300500000", "var/lib/nvpmodel/status": "pmode:0000"}
    (sample,) = samples(1.0, 1, tree(tmp_path, files), lambda _: None)
    assert sample.warnings == ()


def test_the_dla_counters_of_xavier_are_read(tmp_path):
    base = tree(tmp_path, {"sys/devices/platform/host1x/15880000.nvdla0/power/runtime_active_time": "5"})
    assert core_active_ms(0, base) == 5
    assert core_active_ms(1, base) is None
    assert read_board(base).core_active_ms == {0: 5.0}


def test_a_laptop_is_reported_as_no_jetson(tmp_path):
    with pytest.raises(EnvironmentMissing, match="not a Jetson"):
        next(samples(1.0, 1, tmp_path))


def test_doctor_on_a_laptop_reports_board_parts_as_info_only(tmp_path):
    checks = doctor(tmp_path)
    states = {c.name: c.state for c in checks}
    assert states["machine"] == "info"
    assert states["TensorRT"] in ("info", "ok")
    assert "DLA cores in the kernel" not in states


def test_doctor_on_a_board_names_what_is_missing_with_its_remedy(tmp_path):
    files = {k: v for k, v in ORIN.items() if "nvdla" not in k}
    checks = {c.name: c for c in doctor(tree(tmp_path, files))}
    assert checks["DLA cores in the kernel"].state == "fail"
    assert checks["JetPack"].found == "6.2"
    assert checks["DLA in this release"].state == "ok"
    assert checks["libcudla.so.1"].state == "fail"
    assert all(c.remedy for c in checks.values() if c.state == "fail")
    assert summary(tuple(checks.values()))["ok"] is False


def test_doctor_reports_unreadable_clocks_as_unknown(tmp_path):
    files = {k: v for k, v in ORIN.items() if "devfreq" not in k and "clk" not in k and "nvpmodel" not in k}
    checks = {c.name: c for c in doctor(tree(tmp_path, files))}
    assert checks["clocks and power mode"].state == "info"
    assert "unknown" in checks["clocks and power mode"].found


def test_doctor_names_the_numpy_that_jetpacks_opencv_needs(tmp_path, monkeypatch):
    def broken(name):
        raise ImportError("numpy.core.multiarray failed to import")

    monkeypatch.setattr("edgedla.runtime.board.doctor.importlib.import_module", broken)
    checks = {c.name: c for c in doctor(tree(tmp_path, ORIN))}
    assert "numpy<2" in checks["OpenCV"].remedy


def test_doctor_says_that_an_orin_nano_has_no_dla(tmp_path):
    files = {**ORIN, "proc/device-tree/model": "NVIDIA Jetson Orin Nano Developer Kit", "proc/meminfo": "MemTotal: 7800000 kB"}
    checks = {c.name: c for c in doctor(tree(tmp_path, files))}
    assert checks["DLA in this release"].state == "fail"


@pytest.mark.parametrize("interval_s", [float("nan"), float("inf"), -1.0])
def test_an_invalid_sampling_interval_is_refused(interval_s):
    with pytest.raises(UsageError, match="the interval is"):
        next(samples(interval_s))
