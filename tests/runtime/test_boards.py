"""Real boards' variety: containers, carriers, super images, nvpmodel's files, caps, rails, clocks and throttling."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Callable, Dict

import pytest

from edgedla.runtime.board.doctor import doctor
from edgedla.runtime.board.monitor import samples
from edgedla.targets import module_for
from edgedla.targets.board import this_board
from edgedla.targets.device_files import clock_caps_hz
from edgedla.targets.jetson import on_jetson

NVDLA = "sys/devices/platform/bus@0/13e00000.host1x/15880000.nvdla0"
NVDLA1 = "sys/devices/platform/bus@0/13e00000.host1x/158c0000.nvdla1"
JETPACK_5 = "sys/devices/platform/13e40000.host1x/{}.nvdla{}/acm/clk_cap/dla{}_core"
XAVIER = "sys/devices/13e10000.host1x/{}.nvdla{}/acm/clk_cap/dla{}_core"
RELEASE = "# R36 (release), REVISION: 5.0, GCID: 1, BOARD: generic, EABI: aarch64"
#: As nvpmodel.conf of a super-flashed Orin NX 16GB has it: ids with gaps, the names of the plain image, other caps.
SUPER = """# comment
< PARAM TYPE=CLOCK NAME=DLA0_CORE >
MAX_FREQ /sys/devices/platform/bus@0/13e00000.host1x/15880000.nvdla0/clk_cap/dla0_core

< POWER_MODEL ID=0 NAME=MAXN_SUPER >
CPU_ONLINE CORE_0 1
DLA0_CORE MAX_FREQ -1
DLA1_CORE MAX_FREQ -1

< POWER_MODEL ID=2 NAME=15W >
GPU MAX_FREQ 612000000
DLA0_CORE MAX_FREQ 614400000
DLA1_CORE MAX_FREQ 115200000
DLA0_FALCON MAX_FREQ 294400000

< POWER_MODEL ID=4 NAME=40W >
DLA0_CORE MAX_FREQ 908800000
DLA1_CORE MAX_FREQ 908800000

< PM_CONFIG DEFAULT=2 >
"""
XAVIER_NX = """
< POWER_MODEL ID=5 NAME=MODE_10W_DESKTOP >
EMC MAX_FREQ 1600000000
NAFLL_DLA MAX_FREQ 115200000
NAFLL_DLA_FALCON MAX_FREQ 115200000
"""
ORIN_NX = {
    "etc/nv_tegra_release": RELEASE,
    "proc/device-tree/model": "NVIDIA Jetson Orin NX Engineering Reference Developer Kit Super\0",
    "proc/meminfo": "MemTotal: 15900000 kB",
    "etc/nvpmodel.conf": SUPER,
}


@pytest.fixture
def tree(tmp_path: Path) -> Callable[[Dict[str, str]], Path]:
    def make(files: Dict[str, str]) -> Path:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return make


@pytest.mark.parametrize(
    "file",
    [
        "dev/nvmap",
        "dev/nvhost-ctrl",
        "dev/nvgpu/igpu0/ctrl",
        f"{NVDLA}/power/control",
        "sys/devices/platform/13e10000.host1x/15880000.nvdla0/power/control",
    ],
)
def test_a_jetson_in_a_container_is_detected_by_its_device_files(tree: Callable[..., Path], file: str) -> None:
    base = tree({file: "", ".dockerenv": ""})
    board = this_board(base)
    assert board is not None
    assert on_jetson(base)
    assert (board.container, board.target, board.l4t) == (True, None, None)


def test_a_pc_with_a_container_is_no_jetson(tree: Callable[..., Path]) -> None:
    assert this_board(tree({".dockerenv": "", "dev/nvidia0": "", "dev/nvidiactl": ""})) is None


def test_copied_board_files_identify_the_module_in_a_container(
    tree: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    base = tree({"dev/nvmap": "", "proc/meminfo": "MemTotal: 15900000 kB"})
    copies = tree({"copies/nv_tegra_release": RELEASE, "copies/model": "NVIDIA Jetson Orin NX\0"}) / "copies"
    monkeypatch.setenv("EDGEDLA_BOARD_DIR", str(copies))
    board = this_board(base)
    assert board is not None
    assert (board.target, board.l4t) == ("orin-nx-16gb", "36.5.0")


def test_the_copy_that_jetson_containers_mounts_is_read(tree: Callable[..., Path]) -> None:
    files = {"etc/nv_tegra_release": RELEASE, "tmp/nv_jetson_model": "NVIDIA Jetson Orin NX\0"}
    board = this_board(tree({**files, "proc/meminfo": "MemTotal: 15900000 kB", ".dockerenv": ""}))
    assert board is not None
    assert board.target == "orin-nx-16gb"


def test_doctor_in_a_container_says_how_to_show_the_board(tree: Callable[..., Path], golden: Callable[[str, str], None]) -> None:
    named = ("machine", "module", "JetPack", "container")
    checks = [c for c in doctor(tree({"dev/nvmap": "", ".dockerenv": ""})) if c.name in named]
    lines = [f"{c.state:5} {c.name}: {c.found}" + (f"\n      {c.remedy}" if c.remedy else "") for c in checks]
    golden("doctor-container.txt", "\n".join(lines) + "\n")


@pytest.mark.parametrize(("files", "laptop"), [({}, True), ({"dev/nvmap": ""}, False)])
def test_doctor_asks_a_laptop_for_nothing_that_only_a_board_needs(
    files: Dict[str, str], laptop: bool, tree: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("tensorrt", "pycuda"):
        monkeypatch.setitem(sys.modules, name, None)
    remedies = {c.name: c.remedy for c in doctor(tree({**files, "etc/os-release": ""}))}
    assert [remedies[name].startswith("not needed on a laptop") for name in ("TensorRT", "pycuda")] == [laptop] * 2


def test_the_monitor_runs_in_a_container(tree: Callable[..., Path]) -> None:
    (sample,) = samples(0.01, 1, tree({"dev/nvmap": "", ".dockerenv": ""}), lambda _: None, use_tegrastats=False)
    assert sample.dla_busy == {}
    assert any("in a container the files of the host are hidden" in w for w in sample.warnings)


@pytest.mark.parametrize(
    ("compatible", "model", "gib", "target"),
    [
        ("nvidia,p3768-0000+p3767-0000-super\0nvidia,p3767-0000\0nvidia,tegra234\0", "DSBOX-ORNX by Forecr", 15, "orin-nx-16gb"),
        ("nvidia,p3509-0000+p3767-0001\0nvidia,p3767-0001\0", "Advantech AIR-020", 7, "orin-nx-8gb"),
        ("nvidia,p3768-0000+p3767-0005\0", "?", 7, "orin-nano-8gb"),
        ("nvidia,p3768-0000+p3767-0004\0", "?", 3, "orin-nano-4gb"),
        ("nvidia,p3740-0002+p3701-0008\0", "NVIDIA Orin Jetson-Small Developer Kit", 61, None),
        ("nvidia,p3737-0000+p3701-0004\0", "NVIDIA Orin Jetson-Small Developer Kit", 29, "agx-orin-32gb"),
        ("nvidia,p3737-0000+p3701-0000\0", "NVIDIA Jetson AGX Orin Developer Kit", 29.8, "agx-orin-64gb"),
        ("nvidia,p3449-0000+p3668-0003\0", "?", 15, "xavier-nx-16gb"),
        ("nvidia,galen\0nvidia,p2972-0000+p2888-0001\0", "?", 31, "agx-xavier-32gb"),
        ("nvidia,p2972-0000+p2888-0005\0", "?", 61, "agx-xavier-64gb"),
        ("raspberrypi,5\0", "Raspberry Pi", 7, None),
    ],
)
def test_the_module_is_identified_by_part_number_on_any_carrier(
    tree: Callable[..., Path], compatible: str, model: str, gib: float, target: str
) -> None:
    files = {"etc/nv_tegra_release": RELEASE, "proc/device-tree/compatible": compatible, "proc/device-tree/model": model}
    board = this_board(tree({**files, "proc/meminfo": f"MemTotal: {int(gib * (1 << 20))} kB"}))
    assert board is not None
    assert board.target == target


@pytest.mark.parametrize(
    ("revision", "jetpack", "nearest"),
    [
        ("R35 (release), REVISION: 6.3", "5.1.5", True),
        ("R36 (release), REVISION: 4.2", "6.1", True),
        ("R38 (release), REVISION: 2.3", "7.0", True),
        ("R39 (release), REVISION: 2.1", "7.2.1", False),
        ("R39 (release), REVISION: 2.2", "7.2.2", True),
        ("R36 (release), REVISION: 4.3", "6.2", False),
        ("R36 (release), REVISION: 1.0", None, False),
        ("R41 (release), REVISION: 1.0", "7.2.2", True),
    ],
)
def test_a_patch_release_that_no_table_has_is_its_nearest_older_one_and_a_newer_one_the_newest(
    tree: Callable[..., Path], revision: str, jetpack: str, nearest: bool
) -> None:
    board = this_board(tree({"etc/nv_tegra_release": f"# {revision}, GCID: 1"}))
    assert board is not None
    assert (board.jetpack, board.jetpack_nearest) == (jetpack, nearest)


def capped(files: Dict[str, str], mode: int, *mhz: float) -> Dict[str, str]:
    caps = {
        f"{folder}/clk_cap/dla{core}_core": f"{int(value * 1e6)}"
        for core, (folder, value) in enumerate(zip((NVDLA, NVDLA1), mhz))
    }
    return {**files, **caps, "var/lib/nvpmodel/status": f"pmode:{mode:04d} fmode:fanNull"}


@pytest.mark.parametrize(
    ("mode", "caps", "name"),
    [
        (4, (908.8, 908.8), "40W_SUPER"),
        # Called 15W by nvpmodel, but with the second core's cap of the super image.
        (2, (614.4, 115.2), "15W_SUPER"),
        (0, (1228.8, 1228.8), "MAXN_SUPER"),
        # The kernel's word counts: the file still has another mode's caps.
        (4, (614.4, 614.4), "40W of this board"),
        (4, (700.0, 700.0), "40W of this board"),
    ],
)
def test_the_power_mode_follows_the_kernels_clock_caps(tree: Callable[..., Path], mode: int, caps: tuple, name: str) -> None:
    board = this_board(tree(capped(ORIN_NX, mode, *caps)))
    assert board is not None
    found = board.mode_of(module_for("orin-nx-16gb"))
    assert found is not None
    assert found.name == name
    assert found.dla_mhz == pytest.approx(caps, rel=0.01)


@pytest.mark.parametrize(("mode", "name"), [(2, "15W_SUPER"), (4, "40W_SUPER"), (0, "MAXN_SUPER")])
def test_without_clock_caps_the_power_mode_follows_nvpmodel(tree: Callable[..., Path], mode: int, name: str) -> None:
    board = this_board(tree({**ORIN_NX, "var/lib/nvpmodel/status": f"pmode:{mode:04d}"}))
    assert board is not None
    found = board.mode_of(module_for("orin-nx-16gb"))
    assert found is not None
    assert found.name == name


def test_an_unrecorded_mode_is_described_by_its_caps(tree: Callable[..., Path]) -> None:
    files = {
        "etc/nv_tegra_release": "# R35 (release), REVISION: 4.1",
        "proc/device-tree/model": "NVIDIA Jetson Xavier NX Developer Kit",
        "proc/meminfo": "MemTotal: 6900000 kB",
        "etc/nvpmodel.conf": XAVIER_NX,
        "var/lib/nvpmodel/status": "pmode:0005",
    }
    board = this_board(tree(files))
    assert board is not None
    mode = board.mode_of(module_for("xavier-nx-8gb"))
    assert mode is not None
    assert (mode.name, mode.dla_mhz) == ("MODE_10W_DESKTOP of this board", (115.2, 115.2))


@pytest.mark.parametrize("pattern", [JETPACK_5, XAVIER, f"{NVDLA}/clk_cap/dla0_core"])
def test_caps_are_found_where_each_jetpack_puts_them(tree: Callable[..., Path], pattern: str) -> None:
    base = tree({pattern.format("15880000", 0, 0): "614400000"})
    assert clock_caps_hz(base) == {0: 614400000.0}


def test_the_warning_names_the_faster_power_modes_number(tree: Callable[..., Path]) -> None:
    conf = "< POWER_MODEL ID=1 NAME=15W >\n< POWER_MODEL ID=7 NAME=MAXN >\n"
    base = tree({**ORIN_NX, "etc/nvpmodel.conf": conf, "var/lib/nvpmodel/status": "pmode:0001"})
    (sample,) = samples(0.01, 1, base, lambda _: None, use_tegrastats=False)
    assert any("sudo nvpmodel -m 7" in w for w in sample.warnings)


#: A board after `jetson_clocks`: GPU, CPU and memory locked; the other engines keep clocks of their own.
LOCKED = {
    **ORIN_NX,
    "etc/nvpmodel.conf": "",
    "sys/class/devfreq/17000000.gpu/cur_freq": "612000000",
    "sys/class/devfreq/17000000.gpu/min_freq": "612000000",
    "sys/class/devfreq/17000000.gpu/max_freq": "612000000",
    **{
        f"sys/class/devfreq/{name}/{edge}_freq": hz
        for name in ("15340000.vic", "15480000.nvdec", "154c0000.nvenc", "15380000.nvjpg", "15a50000.ofa")
        for edge, hz in (("cur", "115200000"), ("min", "115200000"), ("max", "729600000"))
    },
    "sys/devices/system/cpu/cpufreq/policy0/scaling_min_freq": "1984000",
    "sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq": "1984000",
    "sys/kernel/debug/bpmp/debug/clk/emc/rate": "2133000000",
    "sys/kernel/debug/bpmp/debug/clk/emc/max_rate": "3199000000",
    "sys/kernel/nvpmodel_clk_cap/emc": "2133000000",
    "sys/kernel/debug/bpmp/debug/clk/nafll_dla0_core/rate": "0",
    "sys/kernel/debug/bpmp/debug/clk/nafll_dla0_core/max_rate": "1408000000",
    f"{NVDLA}/clk_cap/dla0_core": "614400000",
    f"{NVDLA}/power/runtime_active_time": "1000",
    f"{NVDLA}/power/runtime_suspended_time": "1000",
}


def warnings_of(base: Path, work: Callable[[float], object] = lambda _: None) -> str:
    (sample,) = samples(0.01, 1, base, work, use_tegrastats=False)
    return "\n".join(sample.warnings)


def test_locked_clocks_give_no_warning(tree: Callable[..., Path]) -> None:
    assert warnings_of(tree(LOCKED)) == ""


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        ("sys/class/devfreq/17000000.gpu/min_freq", "306000000", "gpu 306 of 612 MHz"),
        ("sys/devices/system/cpu/cpufreq/policy0/scaling_min_freq", "729600", "cpu 729.6 of 1984 MHz"),
        ("sys/kernel/debug/bpmp/debug/clk/emc/rate", "665600000", "emc 665.6 of 2133 MHz"),
    ],
)
def test_each_unlocked_clock_gives_a_warning(tree: Callable[..., Path], file: str, text: str, says: str) -> None:
    assert says in warnings_of(tree({**LOCKED, file: text}))


@pytest.mark.parametrize("clock", ["bpmp/debug/clk/nafll_dla0_core/rate", "clk/dla0_core/clk_rate"])
def test_a_dla_clock_is_judged_against_its_cap_while_the_core_works(tree: Callable[..., Path], clock: str) -> None:
    files = {k: v for k, v in LOCKED.items() if "nafll_dla0" not in k}
    base = tree({**files, f"sys/kernel/debug/{clock}": "307200000"})

    def work(_: float) -> None:
        (base / NVDLA / "power/runtime_active_time").write_text("1900")
        (base / NVDLA / "power/runtime_suspended_time").write_text("1100")

    assert "dla0 runs at 307.2 of 614.4 MHz" in warnings_of(base, work)
    assert warnings_of(base) == "", "an idle core's clock is gated"


COOLING = "sys/class/thermal/cooling_device{}/{}"


@pytest.mark.parametrize("kind", ["cpu-throttle-alert", "cpufreq-cpu0", "devfreq-17000000.gpu"])
def test_throttling_at_the_first_sample_gives_a_warning(tree: Callable[..., Path], kind: str) -> None:
    files = {COOLING.format(1, "type"): kind, COOLING.format(1, "cur_state"): "3"}
    assert f"the board throttles now ({kind})" in warnings_of(tree({**LOCKED, **files}))


def test_a_fans_cooling_state_is_not_throttling(tree: Callable[..., Path]) -> None:
    files = {COOLING.format(0, "type"): "pwm-fan", COOLING.format(0, "cur_state"): "4"}
    assert warnings_of(tree({**LOCKED, **files})) == ""


def test_a_throttle_event_is_reported_despite_a_falling_state(tree: Callable[..., Path]) -> None:
    event, state = "sys/class/hwmon/hwmon4/oc3_event_cnt", COOLING.format(1, "cur_state")
    base = tree({**LOCKED, event: "5", state: "2", COOLING.format(1, "type"): "cpu-throttle-alert"})

    def work(_: float) -> None:
        (base / event).write_text("6")
        (base / state).write_text("0")

    assert "because of its current" in warnings_of(base, work)
    assert warnings_of(base) == "", "events of before are no news"


def test_doctor_names_a_tensorrt_of_another_jetpack(tree: Callable[..., Path], fake_tensorrt: Callable[..., object]) -> None:
    base = tree({"etc/nv_tegra_release": "# R35 (release), REVISION: 4.1", ".dockerenv": ""})
    fake_tensorrt("8.6.1")
    checks = {c.name: c for c in doctor(base)}
    pair = checks["TensorRT for this JetPack"]
    assert (pair.state, "8.5.2" in pair.found) == ("warn", True)
    fake_tensorrt("8.5.2")
    assert {c.name: c for c in doctor(base)}["TensorRT for this JetPack"].state == "ok"
