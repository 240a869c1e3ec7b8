"""Cameras that misbehave (cameras.py): each gives frames, or says in one line why it cannot."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any, Iterator

import pytest

from edgedla.errors import DocumentError, RunError
from edgedla.runtime.outputs.retention import recordings_of
from edgedla.runtime.pipeline.config import config_from
from edgedla.runtime.pipeline.open_pipeline import make_capture
from edgedla.runtime.sources import gst_launch, open_source, parse_source
from edgedla.runtime.sources.base import CameraDenied
from edgedla.runtime.sources.reader import CaptureOptions
from tests.ports import free_port
from tests.runtime.taking import Taken
from tests.runtime.waiting import until

PYTHON, CAMERAS = "/usr/bin/python3", Path(__file__).with_name("cameras.py")


def can_serve() -> bool:
    if shutil.which("gst-launch-1.0") is None or not Path(PYTHON).exists():
        return False
    return subprocess.run([PYTHON, CAMERAS, "--probe"], capture_output=True).returncode == 0


pytestmark = pytest.mark.skipif(not can_serve(), reason="GStreamer, x264enc or gst-rtsp-server's Python binding is not installed")


@contextlib.contextmanager
def cameras(*arguments: str) -> Iterator[int]:
    port = free_port()
    process = subprocess.Popen([PYTHON, CAMERAS, str(port), *arguments], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        yield port
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with cameras() as port:
        yield port


@contextlib.contextmanager
def watched(uri: str, **options: Any) -> Iterator[Taken]:
    parsed = parse_source(uri, options)
    capture = Taken(lambda: open_source(parsed), CaptureOptions(backoff_first_s=0.2, stall_s=4.0), "gate", patient=True)
    capture.start()
    try:
        yield capture
    finally:
        capture.stop(3.0)


def taken(capture: Taken, wanted: int, within_s: float) -> int:
    count, until_s = 0, time.monotonic() + within_s
    while count < wanted and time.monotonic() < until_s:
        count += capture.take(0.2) is not None
    return count


#: Path -> (frames that come, within so many seconds even on a busy machine). A slow camera's seconds are its own.
TEMPERS = {
    "plain": (15, 30),
    "bframes": (15, 30),
    "mjpeg": (15, 30),
    "sound": (15, 30),
    "lossy": (15, 30),
    "uneven": (15, 30),
    "one-a-second": (3, 40),
    "sixty": (40, 30),
    "uhd": (4, 60),
    "jump": (60, 60),
}
#: They break off or stand still, and come back.
BREAKING = {"late": (15, 60), "dies": (70, 60), "freeze": (110, 90), "size": (120, 90)}


@pytest.mark.parametrize("path", ["plain", "mjpeg", "sound"])
def test_a_camera_gives_frames(port: int, path: str) -> None:
    with watched(f"rtsp://127.0.0.1:{port}/{path}") as capture:
        assert taken(capture, *TEMPERS[path]) == TEMPERS[path][0]
        assert capture.frame_hw == (240, 320)


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(set(TEMPERS) | set(BREAKING)))
def test_a_camera_of_any_temper_gives_frames(port: int, path: str) -> None:
    wanted, within_s = {**TEMPERS, **BREAKING}[path]
    with watched(f"rtsp://127.0.0.1:{port}/{path}") as capture:
        assert taken(capture, wanted, within_s) == wanted
        assert capture.failure is None


def test_a_turned_camera_changes_its_size(port: int) -> None:
    with watched(f"rtsp://127.0.0.1:{port}/plain", flip="rotate-90") as capture:
        assert taken(capture, 2, 30) == 2
        assert capture.frame_hw == (320, 240)


@pytest.mark.parametrize("address", ["rtsp://cam:wrong@127.0.0.1:{}/auth", "rtsp://127.0.0.1:{}/plain"])
def test_a_wrong_password_waits_for_minutes_and_says_so_with_the_cameras_name(address: str, caplog: Any) -> None:
    """Cameras lock an account that is tried every few seconds."""
    with cameras("--login") as port, watched(address.format(port)) as capture:
        until_s = time.monotonic() + 20
        while not capture.reader.outages.count and time.monotonic() < until_s:
            time.sleep(0.05)
        time.sleep(1.5)
        assert capture.reader.reconnects == 1, "with a first pause of 0.2 s it would be more"
        [line] = [r.getMessage() for r in caplog.records if "user or password" in r.getMessage()]
        assert re.match(r"gate \(rtsp://127.0.0.1:\d+/...\): ", line)
        assert "asked again in 300 s" in line
        assert "wrong" not in line


def test_the_right_password_is_taken() -> None:
    with cameras("--login") as port:
        with watched(f"rtsp://cam:Secret!9@127.0.0.1:{port}/auth") as capture:
            assert taken(capture, 5, 30) == 5
        source = open_source(f"rtsp://cam:wrong@127.0.0.1:{port}/auth")
        with contextlib.closing(source), pytest.raises(CameraDenied):
            source.open()


@pytest.mark.long
def test_a_recording_is_the_cameras_own_stream_in_files_and_frames_go_on(port: int, tmp_path: Path) -> None:
    cv2 = pytest.importorskip("cv2", reason="OpenCV is not installed")
    document = {
        "artifact": "a",
        "outputs": {"record": "film", "record_s": 1},
        "source": {"uri": f"rtsp://127.0.0.1:{port}/plain", "codec": "h264"},
    }
    config = config_from(1, document, str(tmp_path / "p.yaml"))
    capture = make_capture("", config)
    capture.start()
    try:
        assert until(lambda: capture.captured >= 90)
    finally:
        capture.stop(3.0)
    files = sorted((tmp_path / "film").iterdir())
    assert len(files) >= 2
    assert all(re.fullmatch(r"camera-\d{8}-\d{6}Z-[0-9a-f]{4}-0000\d\.mkv", p.name) for p in files)
    film = cv2.VideoCapture(str(files[0]))
    assert int(film.get(cv2.CAP_PROP_FOURCC)).to_bytes(4, "little").lower() == b"h264"
    assert film.read()[1].shape == (240, 320, 3)
    [*old] = recordings_of(str(tmp_path / "film"), ("",))
    assert sorted(p for (p,) in old) == files[:-1], "the newest is being written"


def test_a_full_disk_ends_the_recording_and_not_the_camera(port: int, tmp_path: Path, monkeypatch: Any, caplog: Any) -> None:
    monkeypatch.setattr(gst_launch, "SPACE_BYTES", 1 << 60)
    parsed = dataclasses.replace(parse_source(f"rtsp://127.0.0.1:{port}/plain?codec=h264"), record=str(tmp_path / "c"))
    source = open_source(parsed)
    with contextlib.closing(source):
        assert source.open() == (240, 320)
    assert "not recorded, because the disk is almost full" in caplog.text
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("service", [False, True])
def test_a_service_waits_for_its_only_camera_and_a_command_says_that_it_is_missing(service: bool, monkeypatch: Any) -> None:
    """systemd would start it again every few seconds: a wrong password each time, and no page that says why."""
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    if service:
        monkeypatch.setenv("NOTIFY_SOCKET", "/run/nobody")
    capture = make_capture("", config_from(1, {"artifact": "a", "source": "rtsp://127.0.0.1:1/x"}, "/folder/p.yaml"))
    try:
        if not service:
            with pytest.raises(RunError):
                capture.start()
            return
        capture.start()
        told = capture.to_dict()
        assert (told["state"], told["last_frame_age_s"]) == ("opening", None)
        assert "Could not open" in told["why"] or "connect" in told["why"]
    finally:
        capture.stop(3.0)


@pytest.mark.parametrize(
    ("source", "outputs", "says"),
    [
        ({"uri": "rtsp://h/1"}, {"record": "f"}, "codec is auto"),
        ({"uri": "rtsp://h/1", "codec": "mjpeg"}, {"record": "f"}, "h264, h265"),
        ("csi://0", {"record": "f"}, "no source is rtsp://"),
        ({"uri": "rtsp://h/1", "codec": "h265"}, {"record": "f", "record_s": 0}, "record_s is 0"),
    ],
)
def test_what_cannot_be_recorded_is_refused(source: Any, outputs: Any, says: str) -> None:
    with pytest.raises(DocumentError, match=says):
        config_from(1, {"artifact": "a", "source": source, "outputs": outputs}, "/folder/p.yaml")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Any:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=127.0.0.1",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
            "-keyout",
            folder / "key.pem",
            "-out",
            folder / "cert.pem",
        ],
        check=True,
        capture_output=True,
    )
    return folder / "cert.pem", folder / "key.pem"


def test_a_cameras_own_certificate_is_taken_as_the_file_says(certificate: Any) -> None:
    with cameras(*map(str, certificate)) as port:
        address = f"rtsps://127.0.0.1:{port}/plain"
        source = open_source(address)
        with contextlib.closing(source), pytest.raises(RunError) as e:
            source.open()
        assert "tls: unchecked" in str(e.value)
        assert "glib-networking" in str(e.value)
        for tls in ("unchecked", {"ca_file": str(certificate[0])}):
            with watched(address, tls=tls) as capture:
                assert taken(capture, 3, 30) == 3, tls


def test_a_film_of_the_cameras_is_no_test_of_their_list() -> None:
    """Every temper is tried: a new one in cameras.py needs a row here."""
    paths = set(re.findall(r'^    "/([\w-]+)":', CAMERAS.read_text(), re.MULTILINE))
    assert paths == {*TEMPERS, *BREAKING, "auth"}
