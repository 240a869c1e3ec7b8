"""Cameras of this machine as sources of a pipeline file: devices under a root, and v4l2-ctl as its own output shows it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from edgedla.cli.main import main
from edgedla.io.documents import conform
from edgedla.runtime.board.doctor import doctor
from edgedla.runtime.sources import parse_source
from edgedla.runtime.sources.cameras import cameras

#: v4l2-ctl 1.22 with a Logitech C920 and with an IMX219 on a Jetson, shortened. A device for metadata has no formats.
FORMATS = {
    "video0": """ioctl: VIDIOC_ENUM_FMT
	Type: Video Capture

	[0]: 'YUYV' (YUYV 4:2:2)
		Size: Discrete 640x480
			Interval: Discrete 0.033s (30.000 fps)
		Size: Discrete 1920x1080
			Interval: Discrete 0.200s (5.000 fps)
	[1]: 'MJPG' (Motion-JPEG, compressed)
		Size: Discrete 1920x1080
			Interval: Discrete 0.042s (24.000 fps)
			Interval: Discrete 0.033s (30.000 fps)
		Size: Discrete 1280x720
			Interval: Discrete 0.033s (30.000 fps)
""",
    "video1": "ioctl: VIDIOC_ENUM_FMT\n\tType: Video Capture\n\n",
    "video2": """ioctl: VIDIOC_ENUM_FMT
	Type: Video Capture

	[0]: 'RG10' (10-bit Bayer RGRG/GBGB)
		Size: Discrete 3264x2464
			Interval: Discrete 0.048s (21.000 fps)
""",
}
CSI_LINE = '{uri: "csi://0", width: 3264, height: 2464, rate: 21}'


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    tools = tmp_path / "tools"
    for folder in (tmp_path / "dev", tools):
        folder.mkdir()
    for node, told in FORMATS.items():
        (tmp_path / "dev" / node).write_text("")
        (tools / node).write_text(told)
    names = tmp_path / "sys" / "class" / "video4linux" / "video0"
    names.mkdir(parents=True)
    (names / "name").write_text("HD Pro Webcam C920\n")
    monkeypatch.setenv("PATH", os.pathsep.join([str(tools), "/usr/bin", "/bin"]))
    return tmp_path


def install(base: Path) -> None:
    tool = base / "tools" / "v4l2-ctl"
    tool.write_text('#!/bin/sh\n[ "$1 $3" = "-d --list-formats-ext" ] && cat "$(dirname "$0")/$(basename "$2")"\n')
    tool.chmod(0o755)


def test_each_camera_is_a_source_in_its_largest_size(base: Path) -> None:
    install(base)
    usb, csi = cameras(base)
    assert usb.line == '{uri: "v4l2:///dev/video0", codec: mjpeg, width: 1920, height: 1080, rate: 30}'
    assert usb.told == "HD Pro Webcam C920: YUYV 1920x1080 5/s, MJPG 1920x1080 30/s"
    assert csi.line == CSI_LINE
    assert (csi.told, csi.address) == ("camera: RG10 3264x2464 21/s", "/dev/video2")
    for camera in (usb, csi):
        source = yaml.safe_load(camera.line)
        assert source == camera.source
        assert parse_source(source.pop("uri"), source).rate > 0


@pytest.mark.skipif(os.path.exists("/usr/bin/v4l2-ctl"), reason="this machine has v4l2-ctl")
def test_without_v4l2_ctl_the_devices_are_named(base: Path) -> None:
    first, *_ = cameras(base)
    assert (first.line, first.formats) == ('{uri: "v4l2:///dev/video0"}', {})
    assert first.told == "HD Pro Webcam C920: apt install v4l-utils tells its formats"


def test_a_camera_that_does_not_answer_is_named_and_does_not_hold_the_others(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(base)
    tool = base / "tools" / "v4l2-ctl"
    tool.write_text(tool.read_text().replace("#!/bin/sh\n", '#!/bin/sh\ncase "$2" in *video0) exec sleep 60;; esac\n'))
    monkeypatch.setattr("edgedla.runtime.sources.cameras.LIMIT_S", 0.5)
    silent, csi = cameras(base)
    assert silent.told == "HD Pro Webcam C920: it did not tell its formats within 0.5 s; plug it in again, or see dmesg"
    assert (silent.line, csi.address) == ('{uri: "v4l2:///dev/video0"}', "/dev/video2")


def test_what_v4l2_ctl_refuses_is_said(base: Path) -> None:
    install(base)
    (base / "tools" / "v4l2-ctl").write_text("#!/bin/sh\necho 'Cannot open device: busy' >&2\nexit 1\n")
    assert [camera.told for camera in cameras(base)][1] == "camera: v4l2-ctl: Cannot open device: busy"


def test_doctor_and_the_verb_list_the_same(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(base)
    found = list(cameras(base))
    assert [c.found for c in doctor(base) if c.name == "camera"] == [f"{c.line} is {c.told}" for c in found]
    monkeypatch.setenv("EDGEDLA_ROOT", str(base))
    text = CliRunner().invoke(main, ["sources"], standalone_mode=False).output
    assert yaml.safe_load(text) == {"sources": {"camera0": found[0].source, "camera1": found[1].source}}
    assert "  # HD Pro Webcam C920: YUYV 1920x1080 5/s, MJPG 1920x1080 30/s\n" in text
    document = json.loads(CliRunner().invoke(main, ["sources", "--format", "json"], standalone_mode=False).output)
    conform(document, "edgedla.sources", "stdout")
    assert document["sources"][1] == {
        "name": "camera",
        "address": "/dev/video2",
        "source": {"uri": "csi://0", "width": 3264, "height": 2464, "rate": 21.0},
        "formats": [{"format": "RG10", "width": 3264, "height": 2464, "rate": 21.0}],
        "remark": "",
        "line": CSI_LINE,
    }


def test_a_machine_without_cameras_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGEDLA_ROOT", str(tmp_path))
    done = CliRunner().invoke(main, ["sources"], standalone_mode=False)
    assert (done.exit_code, done.output) == (0, "no camera here: `edgedla doctor` says what is missing\n")
