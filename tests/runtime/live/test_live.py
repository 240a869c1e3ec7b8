"""The live page: pictures on demand, a word for each camera's state, access control, and a real browser."""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import re
import socket
import threading
import time

import numpy as np
import pytest

from docs.chrome import CHROMIUM, open_page
from edgedla.errors import EnvironmentMissing, RunError
from edgedla.runtime.decode.detections import Detection
from edgedla.runtime.frames import Frame, FrameResult
from edgedla.runtime.live.scenes import Scene, Scenes
from edgedla.runtime.live.server import page, serve_view
from edgedla.runtime.live.state import WORDS, Warnings
from edgedla.runtime.outputs.films.mp4 import encoder, has
from edgedla.runtime.pipeline.capture import Capture
from edgedla.runtime.pipeline.config import load_config
from edgedla.runtime.pipeline.pipeline import Limits
from edgedla.runtime.pipeline.settings import ViewConfig
from tests.ports import free_port
from tests.runtime.field.field_pipelines import camera, counter, engine, lane, pipeline

cv2 = pytest.importorskip("cv2", reason="OpenCV is not installed")
#: What an attacker would call a camera's object or a file.
NASTY = "<img src=x onerror=window.bad=1>\"'</script><script>window.bad=1</script>"


def result(number, source="a", model="", age_s=0.0, hw=(48, 64)):
    image = np.full((*hw, 3), number, np.uint8)
    frame = Frame(number, image, time.monotonic() - age_s)
    return FrameResult(frame, (Detection((2, 2, 20, 20), 0.9, 1, NASTY),), "DLA0", True, 1.0, 2.0, source, model)


def test_images_are_encoded_once_and_only_with_a_viewer():
    scenes = Scenes(("a",), rate=50.0)
    for n in range(100):
        scenes.write(result(n))
    scene = scenes.by_source["a"]
    assert scene.encoded == 0
    got = []
    viewers = [threading.Thread(target=lambda: got.append(scene.jpeg(0.2))) for _ in range(4)]
    for v in viewers:
        v.start()
    for v in viewers:
        v.join(10)
    assert len(set(got)) == 1
    assert scene.encoded == 1
    assert cv2.imdecode(np.frombuffer(got[0], np.uint8), 1).shape == (48, 64, 3)
    scenes.write(result(200))
    assert scene.jpeg(1.0) != got[0]


def test_pictures_come_at_most_at_the_rate_and_large_ones_are_scaled_down():
    scenes = Scenes(("a",), rate=20.0, width=32)
    scene, started, count = scenes.by_source["a"], time.monotonic(), 0
    while time.monotonic() - started < 0.5:
        scenes.write(result(count % 250))
        scene.jpeg(0.1)
        count += 1
    assert count <= 12
    assert cv2.imdecode(np.frombuffer(scene.jpeg(0.0), np.uint8), 1).shape == (24, 32, 3)


@pytest.mark.parametrize("pixels", ["bgr", "rgb", "nv12", "nv12-709"])
def test_boxes_lie_right_in_a_picture_that_was_scaled_down(pixels):
    from edgedla.runtime.outputs.draw import COLOURS, draw_scene

    shape = (300, 400) if pixels.startswith("nv12") else (200, 400, 3)
    frame = Frame(0, np.full(shape, 128, np.uint8), 0.0, pixels=pixels)
    found = FrameResult(frame, (Detection((200, 100, 300, 160), 0.9, 0),), "DLA0", True, 1.0, 2.0)
    for width, scale in ((0, 1.0), (800, 1.0), (200, 0.5)):
        image = draw_scene([found], width)
        assert image.shape == (200 * scale, 400 * scale, 3)
        ys, xs = np.nonzero((image == COLOURS[0]).all(-1))
        assert abs(xs.max() - 300 * scale) <= 2
        assert abs(ys.max() - 160 * scale) <= 2
        assert abs(xs.min() - 200 * scale) <= 2


def test_results_of_other_models_are_shown_for_a_second():
    scenes = Scenes(("a",))
    scenes.write(result(1, model="old", age_s=5.0))
    scenes.write(result(2, model="slow", age_s=0.5))
    scenes.write(result(3, model="fast"))
    assert [r.model for r in scenes.by_source["a"].results()[0]] == ["fast", "slow"]


class Hanging:
    """A camera that gives one frame, and no other until the test ends."""

    uri, live, pixels, rate = "hanging", True, "bgr", 30.0

    def __init__(self, release):
        self.release, self.count = release, 0

    def open(self):
        return 48, 64

    def read(self):
        if self.count:
            self.release.wait(30)
        self.count += 1
        return np.zeros((48, 64, 3), np.uint8)

    def close(self):
        pass


@contextlib.contextmanager
def running(title="", **view):
    """The address of a page over a good camera and one that hangs."""
    release = threading.Event()
    found = lambda b, g: [[Detection((1, 1, 9, 9), 0.9, 0, NASTY)] for _ in g]  # noqa: E731
    captures = [camera("good", counter(rate=50)), Capture(lambda: Hanging(release), name="hanging")]
    p = pipeline(captures, [lane(engine(1.0, decode=found), ["good", "hanging"])], limits=Limits(seconds=60))
    config = ViewConfig(port=free_port(), **view)
    with serve_view(p, config, title) as address:
        thread = threading.Thread(target=p.run, daemon=True)
        thread.start()
        try:
            yield address, config.port, p
        finally:
            p.stop()
            release.set()
            thread.join(20)


def ask(port, path, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=45)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


def until(port, wanted, seconds=15.0):
    end = time.monotonic() + seconds
    while True:
        document = json.loads(ask(port, "/state.json")[1])
        if wanted(document) or time.monotonic() > end:
            return document
        time.sleep(0.1)


def test_the_page_marks_live_and_stalled_cameras():
    with running("three.yaml") as (address, port, p):
        document = until(port, lambda d: [s["word"] for s in d["sources"]] == ["live", "stalled"])
        good, hanging = document["sources"]
        assert (good["word"], hanging["word"]) == ("live", "stalled")
        assert good["rate"] > 5
        assert hanging["silent_s"] >= 2
        assert document["health"]["word"] == "Act now"
        assert document["health"]["tell"] == "1 of 2 sources live. hanging is stalled."
        assert {s["name"] for s in document["stages"]} >= {"Inference", "Decode"}
        assert {row["name"] for row in document["load"]} == {"f0"}
        answer, body = ask(port, "/camera/good.jpg")
        assert answer.status == 200
        assert cv2.imdecode(np.frombuffer(body, np.uint8), 1) is not None
        answer, body = ask(port, "/")
        assert "script-src 'self'" in answer.getheader("Content-Security-Policy")
        assert b"hanging is stalled" in body
        assert b"<script>" not in body, "no script but the file"
        for path in ("/style.css", "/live.js"):
            assert ask(port, path)[0].status == 200
        for path in ("/camera/none.jpg", "/camera/good.png", "/../manifest.json", "/camera/../state.json", "/etc/passwd"):
            assert ask(port, path)[0].status == 404
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", "/camera/good.mjpg")
        stream = connection.getresponse()
        assert stream.getheader("Content-Type").startswith("multipart/x-mixed-replace")
        head = stream.read(200)
        assert b"--edgedla-frame\r\nContent-Type: image/jpeg" in head
        connection.close()


@pytest.mark.parametrize(("line", "status"), [(b"PUT / HTTP/1.1", 501), (b"GET / x HTTP/1.1", 400)])
def test_refused_requests_have_the_headers_of_every_answer(line, status):
    with running(names=("board",)) as (address, port, p):
        with socket.create_connection(("127.0.0.1", port), timeout=10) as stream:
            stream.sendall(line + b"\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            said = b"".join(iter(lambda: stream.recv(4096), b"")).decode()
        assert str(status) in said
        for name in ("Content-Security-Policy: default-src 'none'", "X-Content-Type-Options: nosniff"):
            assert said.count(name) == 1


def test_a_request_with_a_foreign_host_header_is_refused():
    own = socket.gethostname()
    with running(names=("Board-1", "cams.local")) as (address, port, p):
        for host in (
            "evil.example",
            f"{own}.evil.example",
            f"{own}.local.evil.example",
            "localhost.evil.example",
            "board-1.evil",
            own,
        ):
            if host.lower() in ("localhost", "board-1"):
                continue
            answer, body = ask(port, "/state.json", Host=host)
            assert answer.status == 421
            assert b"--view-name" in body
        for host in ("board-1", f"BOARD-1:{port}", "cams.local", "cams.local."):
            assert ask(port, "/state.json", Host=host)[0].status == 200
        for host in (f"127.0.0.1:{port}", "localhost", "192.168.1.5:80", "[::1]:80"):
            assert ask(port, "/state.json", Host=host)[0].status == 200


def test_a_token_is_required_and_removed_from_the_address(tmp_path):
    secret = "0123456789abcdef-XYZ"
    (tmp_path / "token").write_text(secret + "\n")
    with running(token_file=str(tmp_path / "token")) as (address, port, p):
        for path in ("/", "/state.json", "/camera/good.jpg", "/?token=wrong", "/?token="):
            assert ask(port, path)[0].status == 401
        answer, _ = ask(port, f"/?token={secret}")
        assert (answer.status, answer.getheader("Location")) == (303, "/")
        cookie = answer.getheader("Set-Cookie")
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert ask(port, "/", Cookie=cookie.partition(";")[0])[0].status == 200
        assert ask(port, "/", Cookie="edgedla_token=wrong")[0].status == 401
        assert ask(port, "/state.json", Authorization=f"Bearer {secret}")[0].status == 200


@pytest.mark.parametrize("text", ["short", "with space in the token", 'quote"quote"quote"', "päßwörter-sind-lang"])
def test_a_token_that_no_cookie_can_hold_is_refused(tmp_path, text):
    (tmp_path / "token").write_text(text)
    with pytest.raises(RunError, match="this is not a token"), running(token_file=str(tmp_path / "token")):
        pass


def test_warnings_are_printed_without_another_log_handler(monkeypatch, capsys):
    log = logging.getLogger("edgedla.runtime.pipeline.reload")
    root, warnings = logging.getLogger(), Warnings()
    with monkeypatch.context() as m:
        m.setattr(root, "handlers", [])
        m.setattr(logging.getLogger("edgedla"), "handlers", [warnings])
        log.warning("model %s is replaced", "a")
        assert capsys.readouterr().err == "model a is replaced\n"
        m.setattr(root, "handlers", [logging.NullHandler()])
        log.warning("once")
        assert not capsys.readouterr().err
    assert [text for _, _, text in warnings.lines] == ["model a is replaced", "once"]


def test_serving_beyond_this_machine_gives_a_warning(caplog):
    with running(address="0.0.0.0"):
        assert "shows the cameras to everybody who reaches it" in caplog.text


def test_the_page_tells_why_a_camera_has_not_come_yet():
    """The failure is logged once, perhaps before the page is there; the page itself has to say it, without the password."""

    def refused():
        raise RunError("http://user:secret@door/ does not answer", where="door")

    class Missing(Hanging):
        open = staticmethod(refused)

    captures = [camera("good", counter(rate=50)), Capture(lambda: Missing(threading.Event()), name="door", patient=True)]
    p = pipeline(captures, [lane(engine(1.0), ["good", "door"])], limits=Limits(seconds=60))
    p.start()
    with serve_view(p, ViewConfig(port=free_port())) as address:
        thread = threading.Thread(target=p.run, daemon=True)
        thread.start()
        document = until(int(address.rstrip("/").rpartition(":")[2]), lambda d: d["sources"][1]["word"] == "waiting")
        p.stop()
        thread.join(20)
    good, door = document["sources"]
    assert door["why"] == "http://door does not answer"
    assert not good["why"]


@pytest.mark.parametrize(("every", "word"), [(1, "dropping frames"), (20, "live")])
def test_a_camera_whose_frames_are_mostly_dropped_is_degraded_unless_the_file_asks_for_fewer(every, word):
    p = pipeline([camera("a", counter(rate=50))], [lane(engine(150.0), ["a"])], limits=Limits(seconds=60), every={"": every})
    with serve_view(p, ViewConfig(port=free_port())) as address:
        thread = threading.Thread(target=p.run, daemon=True)
        thread.start()
        try:
            port = int(address.rstrip("/").rpartition(":")[2])
            until(port, lambda d: p.captures["a"].taken > 3)
            document = until(port, lambda d: d["sources"][0]["word"] == word)
        finally:
            p.stop()
            thread.join(20)
    (source,) = document["sources"]
    assert source["word"] == word
    assert 0 < source["analysed"] < source["rate"]
    assert document["health"]["word"] == {"dropping frames": "Degraded", "live": "All live"}[word]
    assert document["health"]["tell"] == "1 of 1 sources live." + (" a is dropping frames." if word != "live" else "")


def test_a_port_in_use_is_a_run_error():
    with running() as (address, port, p):
        other = pipeline([camera("a", counter(1))], [lane(engine(), "a")])
        with pytest.raises(RunError, match="live page: .*\\n.*another port"), serve_view(other, ViewConfig(port=port)):
            pass


def test_names_and_warnings_are_text_and_not_markup():
    source = {
        "name": NASTY,
        "key": NASTY,
        "word": "live",
        "level": "ok",
        "rate": 1.0,
        "of": None,
        "analysed": 1.0,
        "age_ms": None,
        "dropped": 0,
        "captured": 0,
        "reconnects": 0,
        "silent_s": None,
        "objects": None,
        "why": NASTY,
    }
    document = {
        "title": NASTY,
        "up_s": 1.0,
        "time": "1",
        "simulated": True,
        "sources": [source],
        "stages": [],
        "load": [],
        "gauges": [],
        "models": [{"name": NASTY, "rate": 1.0, "results": 1}],
        "health": {"level": "ok", "word": "All live", "tell": NASTY},
        "warnings": [{"time": "1", "level": "warn", "text": NASTY}],
    }
    text = page(document).decode()
    assert "onerror=window" not in text.replace("&lt;img src=x onerror=window", "")
    assert text.count("<script") == 1


def test_every_state_of_a_camera_has_a_severity():
    assert set(WORDS.values()) <= {"ok", "warn", "bad", "plain"}


@pytest.mark.slow
@pytest.mark.skipif(not CHROMIUM, reason="no Chromium on this machine")
def test_a_real_browser_shows_pictures_and_runs_no_foreign_script():
    with open_page(390, 900) as browser:
        with running(NASTY) as (address, port, p):
            until(port, lambda d: d["sources"][1]["word"] == "stalled")
            browser.go(address)
            browser.until("document.title.includes('Act now')", 20)
            assert browser.ask("document.title") == "✕ Act now: 1 of 2 sources live. hanging is stalled."
            first = browser.ask("document.images[0].src")
            browser.until(f"document.images[0].src !== {first!r} && document.images[0].naturalWidth > 0", 10)
            browser.until("/^(of [\\d.]+, )?[\\d.]+ analysed$/.test(document.querySelector('[data-of=of]').textContent)", 10)
            assert browser.ask("window.bad === undefined")
            assert browser.ask("document.getElementById('title').textContent") == NASTY
            assert not browser.ask("document.documentElement.scrollWidth > window.innerWidth")
            assert browser.ask("[...document.querySelectorAll('.chip')].map(c => c.textContent)") == ["live", "stalled"]
            assert browser.ask("document.querySelectorAll('figcaption')[1].textContent").startswith("No frame for")
            assert not [line for line in browser.console if "Content Security Policy" in line]
        browser.until("document.title === '✕ Not reached'", 20)
        assert browser.ask("[...document.querySelectorAll('.chip')].map(c => c.textContent)") == ["not reached"] * 2
        marks = browser.ask("[...document.querySelectorAll('.chip, .big')].map(c => c.dataset.mark)")
        assert marks == ["✕"] * 3
        assert "Last seen" in browser.ask("document.querySelector('.tell').textContent")
        assert browser.ask("getComputedStyle(document.images[0]).filter").startswith("grayscale")
        assert browser.ask("document.images[0].naturalWidth") > 0, "the last picture stays"


def clicked(browser, x, y):
    for kind in ("mousePressed", "mouseReleased"):
        browser.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)


def middle_of(browser, element):
    return browser.ask(
        f"(() => {{ const e = {element}; e.scrollIntoView({{block: 'center'}}); const r = e.getBoundingClientRect(); "
        "return [r.left + r.width / 2, r.top + r.height / 2]; })()"
    )


HLS = pytest.mark.skipif(
    encoder() is None or not has("hlssink2"), reason="GStreamer here has no hlssink2, or no encoder of H.264"
)


def listed(text):
    """(lengths in seconds, names) of a playlist's pieces."""
    return [float(s) for s in re.findall(r"#EXTINF:([\d.]+)", text)], re.findall(r"^\d{5}\.ts$", text, re.MULTILINE)


@HLS
@pytest.mark.long
def test_a_film_in_pieces_is_made_while_somebody_asks(monkeypatch):
    monkeypatch.setattr("edgedla.runtime.live.hls.IDLE_S", 4.0)
    with running(video="hls", rate=10) as (_, port, p):
        encoding = lambda: [t for t in threading.enumerate() if t.name == "edgedla-hls"]  # noqa: E731
        assert encoding() == []
        end_s, names, lengths = time.monotonic() + 40, [], []
        while len(names) < 3:
            assert time.monotonic() < end_s, f"only {names}"
            answer, text = ask(port, "/camera/good/live.m3u8")
            assert answer.status == 200
            assert answer.getheader("Content-Type") == "application/vnd.apple.mpegurl"
            lengths, names = listed(text.decode())
            time.sleep(0.3)
        assert all(0 < length < 10 for length in lengths), text
        answer, piece = ask(port, f"/camera/good/{names[-1]}")
        assert answer.getheader("Content-Type") == "video/mp2t"
        assert (piece[0], len(piece) % 188) == (0x47, 0), "packets of an MPEG transport stream"
        assert len(encoding()) == 1, "one for all who ask"
        assert ask(port, "/camera/good/live.m3u8", Host="evil.example")[0].status == 421
        for path in ("good/99999.ts", "good/%2e%2e/live.m3u8", "good/../../etc/passwd", "nobody/live.m3u8", "good/live.m3u8/x"):
            assert ask(port, f"/camera/{path}")[0].status == 404, path
        assert ask(port, "/camera/good.jpg")[0].status == 200, "pictures are there for browsers that play no film"
        while encoding():
            assert time.monotonic() < end_s + 30
            time.sleep(0.2)


@HLS
def test_the_pieces_of_a_film_are_removed_with_the_page(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    # As at the end of a run: no new picture comes.
    monkeypatch.setattr(Scene, "jpeg", lambda self, seconds: time.sleep(1.5) or b"")
    with running(video="hls", rate=10) as (_, port, p):
        assert ask(port, "/camera/good/00000.ts")[0].status == 404
        assert len(list(tmp_path.glob("edgedla-hls-*"))) == 1
    assert list(tmp_path.glob("edgedla-hls-*")) == []
    assert [t for t in threading.enumerate() if t.name == "edgedla-hls"] == []


def test_without_the_setting_there_is_no_film():
    with running() as (_, port, _):
        assert ask(port, "/camera/good/live.m3u8")[0].status == 404
        assert b"data-film" not in ask(port, "/")[1]


def test_a_film_needs_an_encoder_before_the_page_is_served(monkeypatch):
    monkeypatch.setattr("edgedla.runtime.live.hls.encoder", lambda: None)
    with pytest.raises(EnvironmentMissing, match=r"(?s)no encoder of H.264.*video: mjpeg"), running(video="hls"):
        pass


@HLS
@pytest.mark.slow
@pytest.mark.skipif(not CHROMIUM, reason="no Chromium on this machine")
def test_a_real_browser_plays_the_film():
    found = lambda b, g: [[] for _ in g]  # noqa: E731
    p = pipeline([camera("good", counter(rate=20))], [lane(engine(1.0, decode=found), ["good"])], limits=Limits(seconds=120))
    with serve_view(p, ViewConfig(port=free_port(), video="hls")) as address, open_page(800, 900) as browser:
        thread = threading.Thread(target=p.run, daemon=True)
        thread.start()
        browser.go(address)
        if not browser.ask("document.createElement('video').canPlayType('application/vnd.apple.mpegurl')"):
            pytest.skip("this Chromium plays no HLS by itself")
        # Beyond the first pieces: where one ends and the next begins, a browser is stricter.
        browser.until("(document.querySelector('video') || {}).currentTime > 5", 90)
        assert browser.ask("document.querySelector('video').videoWidth") > 0
        assert not [line for line in browser.console if "Content Security Policy" in line]
        p.stop()
        thread.join(20)


@pytest.mark.slow
@pytest.mark.skipif(not CHROMIUM, reason="no Chromium on this machine")
def test_corners_clicked_into_a_picture_are_a_zone_that_a_pipeline_file_takes(tmp_path):
    # The last one is taken back.
    tile, corners = "document.querySelector('.tile')", ((0.1, 0.2), (0.9, 0.2), (0.5, 0.8), (0.2, 0.3))
    # The page is shorter than the window, so that nothing scrolls away under the mouse.
    with running("guard") as (address, _, _), open_page(1000, 2400) as browser:
        browser.call("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
        browser.go(address)
        browser.until(f"!{tile}.querySelector('.draw').hidden && document.images[0].naturalWidth > 0")
        clicked(browser, *middle_of(browser, f"{tile}.querySelector('figure')"))
        assert browser.ask(f"{tile}.querySelector('textarea').value") == "", "a click alone draws nothing"
        clicked(browser, *middle_of(browser, f"{tile}.querySelector('[data-do=start]')"))
        for x, y in corners:
            # Anew each time: what stands above the picture may have changed.
            where = "(r => [r.left, r.top, r.width, r.height])(document.images[0].getBoundingClientRect())"
            left, top, width, height = browser.ask(where)
            clicked(browser, left + x * width, top + y * height)
        clicked(browser, *middle_of(browser, f"{tile}.querySelector('[data-do=undo]')"))
        assert browser.ask(f"{tile}.querySelector('polygon').points.length") == 3
        clicked(browser, *middle_of(browser, f"{tile}.querySelector('[data-do=copy]')"))
        browser.until("navigator.clipboard.readText().then(t => t.startsWith('events:'))", 10)
        text = browser.ask("navigator.clipboard.readText()")
        assert text == browser.ask(f"{tile}.querySelector('textarea').value")
        clicked(browser, *middle_of(browser, f"{tile}.querySelector('[data-do=end]')"))
        assert browser.ask(f"{tile}.querySelector('polygon').points.length") == 0
        key = browser.ask(f"{tile}.dataset.key")
    models = "models: {m: {artifact: a, decode: {kind: yolov8}}}"
    (tmp_path / "p.yaml").write_text(f"version: 2\nsources: {{{key}: csi://0}}\n{models}\n{text}")
    (rule,) = load_config(str(tmp_path / "p.yaml")).events.values()
    assert rule.sources == (key,)
    assert np.abs(np.subtract(rule.zone, corners[:3])).max() < 0.01
