"""Files that a pipeline file names relative to itself are included; others are listed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Dict

import numpy as np
import pytest

from edgedla.bundles import carried
from edgedla.bundles.contents import Contents, contents_of
from tests.models import node, onnx_model
from tests.ports import free_port
from tests.runtime.waiting import until

cv2 = pytest.importorskip("cv2", reason="OpenCV is not installed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pipeline file's: an artifact, a film, pictures, a decoder."""
    import edgedla

    folder = tmp_path_factory.mktemp("pl")
    model = onnx_model([node("Relu", "x", "y", name="relu")], {"x": (1, 3, 16, 16)}, {"y": (1, 3, 16, 16)}, opset=17)
    edgedla.build(model, folder / "artifact", edgedla.BuildRequest(target="agx-orin-64gb", backend="host"))
    film = cv2.VideoWriter(str(folder / "a film.avi"), cv2.VideoWriter_fourcc(*"MJPG"), 25, (32, 24))
    for grey in (0, 100, 200):
        film.write(np.full((24, 32, 3), grey, np.uint8))
    film.release()
    (folder / "pictures").mkdir()
    for name in ("1.png", "2.png"):
        cv2.imwrite(str(folder / "pictures" / name), np.zeros((24, 32, 3), np.uint8))
    (folder / "pictures" / "note.txt").write_text("of nobody's concern")
    (folder / "head.py").write_text(
        "from edgedla.runtime.decode import Detection\n"
        "def decode(outputs, geometry, options):\n    return [Detection((1.0, 2.0, 3.0, 4.0), 0.9, 0, 'thing')]\n"
    )
    return folder


def bundled(folder: Path, **settings: Any) -> Contents:
    document: Dict[str, Any] = {"version": 1, "artifact": "artifact", "decode": "head.py:decode", **settings}
    (folder / "p.yaml").write_text(json.dumps(document))
    return contents_of(None, folder / "p.yaml")


@pytest.mark.parametrize(
    ("source", "becomes"),
    [
        ("a film.avi", "files/0-a film.avi"),
        ({"uri": "file://a%20film.avi?frames=2"}, {"uri": "file://files/0-a%20film.avi?frames=2"}),
        ("pictures", "files/0-pictures"),
        ("images://pictures", "images://files/0-pictures"),
    ],
)
def test_a_film_beside_the_pipeline_file_runs_from_the_bundle(folder: Path, tmp_path: Path, source: Any, becomes: Any) -> None:
    from edgedla.bundles.bundle import bundle

    assert bundled(folder, source=source, outputs={"jsonl": "r.jsonl"}).manifest["pipeline"]["source"] == becomes
    made = bundle(None, tmp_path / "out", pipeline=folder / "p.yaml")
    assert made.lacking == ()
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run([sys.executable, str(made.path)], cwd="/", capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (tmp_path / "out" / "r.jsonl").read_text().splitlines()]
    assert len(lines) == (3 if source == "a film.avi" else 2)
    assert lines[0]["results"][0]["label"] == "thing"


def test_each_file_is_bundled_once_and_folders_contribute_only_images(folder: Path) -> None:
    made = contents_of(None, written(folder, {"a": "pictures", "b": "a film.avi", "c": {"uri": "a film.avi", "loop": True}}))
    names = [name for name in made.data if name.startswith("files/")]
    assert names == ["files/0-pictures/1.png", "files/0-pictures/2.png", "files/1-a film.avi", "files/2-head.py"]
    assert made.manifest["pipeline"]["sources"]["c"] == {"uri": "files/1-a film.avi", "loop": True}


def written(folder: Path, sources: Dict[str, Any], **more: Any) -> Path:
    models = {"m": {"artifact": "artifact", "decode": {"kind": "head.py:decode"}}}
    (folder / "p.yaml").write_text(json.dumps({"version": 2, "sources": sources, "models": models, **more}))
    return folder / "p.yaml"


def test_files_that_are_not_included_are_listed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full path is one of the board's, a password is nobody's to pass on, and a film of gigabytes is verified at no start."""
    there = str(folder / "a film.avi")
    made = contents_of(
        None,
        written(
            folder,
            {"a": there, "b": "later.avi", "c": "csi://0"},
            view={"port": 8000, "token_file": "token"},
            outputs={"mqtt": {"url": "mqtt://user@h", "topic": "{source}", "password_file": "secret"}},
        ),
    )
    assert made.lacking == (there, "later.avi", "token", "secret")
    monkeypatch.setattr(carried, "MOST_BYTES", 100)
    assert bundled(folder, source="a film.avi", decode="mine:decode").lacking == ("a film.avi", "Python's module mine")


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_a_signal_ends_a_bundle_gracefully(folder: Path, tmp_path: Path, number: signal.Signals) -> None:
    """SIGHUP comes of a terminal that is closed."""
    from edgedla.bundles.bundle import bundle

    bundled(folder, source="synthetic://?rate=50&width=32&height=24", outputs={"jsonl": "r.jsonl"})
    made = bundle(None, tmp_path / "out", pipeline=folder / "p.yaml")
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    with subprocess.Popen([sys.executable, str(made.path)], cwd="/", stdout=subprocess.PIPE, env=environment) as run:
        assert until(lambda: (made.path / "r.jsonl").exists() and (made.path / "r.jsonl").stat().st_size > 500, 30)
        run.send_signal(number)
        out = run.communicate(timeout=30)[0]
    assert run.returncode == 0
    assert json.loads(out)["frames"]["results"] == len((made.path / "r.jsonl").read_text().splitlines())


def test_a_bundle_serves_the_live_page(folder: Path, tmp_path: Path) -> None:
    from edgedla.bundles.bundle import bundle

    port = free_port()
    bundled(folder, source="synthetic://?rate=20&width=32&height=24", view={"port": port})
    made = bundle(None, tmp_path / "out", pipeline=folder / "p.yaml")
    assert "jinja2" in made.needs
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    with subprocess.Popen([sys.executable, str(made.path)], cwd="/", stdout=subprocess.DEVNULL, env=environment) as run:
        try:
            for name in ("", "style.css", "live.js", "state.json"):
                assert until(lambda name=name: answers(f"http://127.0.0.1:{port}/{name}"), 30), name
        finally:
            run.terminate()
    assert run.returncode == 0


def answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:
            return bool(answer.read())
    except urllib.error.HTTPError:
        raise
    except OSError:
        return False


def test_bundle_lists_files_that_must_be_on_the_board(folder: Path, tmp_path: Path) -> None:
    file = written(folder, {"a": "later.avi"})
    command = [sys.executable, "-m", "edgedla", "bundle", "--pipeline", str(file), "-o", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "lacks     later.avi, which must be on the board" in done.stdout
