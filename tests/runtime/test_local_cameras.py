"""Cameras of this machine as sources of a pipeline file: devices under a root, and v4l2-ctl as its own output shows it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

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
    assert usb == (
        '{uri: "v4l2:///dev/video0", codec: mjpeg, width: 1920, height: 1080, rate: 30} is HD Pro Webcam C920: '
        "YUYV 1920x1080 5/s, MJPG 1920x1080 30/s"
    )
    assert csi == '{uri: "csi://0", width: 3264, height: 2464, rate: 21} is camera: RG10 3264x2464 21/s'
    for text in (usb, csi):
        source = yaml.safe_load(text.partition(" is ")[0])
        assert parse_source(source.pop("uri"), source).rate > 0


@pytest.mark.skipif(os.path.exists("/usr/bin/v4l2-ctl"), reason="this machine has v4l2-ctl")
def test_without_v4l2_ctl_the_devices_are_named(base: Path) -> None:
    first, *_ = cameras(base)
    assert first == '{uri: "v4l2:///dev/video0"} is HD Pro Webcam C920; apt install v4l-utils tells its formats'


def test_doctor_lists_them(base: Path) -> None:
    install(base)
    found = [check.found for check in doctor(base) if check.name == "camera"]
    assert found == list(cameras(base))
