"""The pictures of the documentation, from commands: `python docs/make_pictures.py [NAME...]`.

Needs what docs/screenshots.py needs, and edgedla with the extras host and fix. Pictures land in docs/pictures.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Dict, Tuple

from screenshots import MOST_HEIGHT, SHOTS
from screenshots import main as shoot

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
DETECTOR = EXAMPLES / "00_shapes_detector" / "shapes_detector.onnx"
STREET = f"python {EXAMPLES}/01_check_a_model/make_model.py street.onnx"
#: name of the picture -> commands, the last of which writes NAME.html (or the page that is named).
PICTURES: Dict[str, Tuple[str, ...]] = {
    "check": (STREET, "edgedla check street.onnx --target agx-orin-64gb --jetpack 6.2 --fail-on never -o check.html"),
    "compare": (
        STREET,
        f"edgedla check street.onnx {DETECTOR} --compare orin-nx-16gb@int8,agx-orin-64gb,xavier-nx-8gb,orin-nano-8gb "
        "--fail-on never -o compare.html",
    ),
    "place": (
        f"python {EXAMPLES}/02_place_two_models/make_models.py",
        "edgedla place detector.onnx plates.onnx --precision int8 --objective throughput -o place.html",
    ),
    "fix": (STREET, "edgedla fix street.onnx -o street_dla.onnx --precision int8 --report fix.html"),
    "quantize": (
        f"python {EXAMPLES}/00_shapes_detector/make_data.py data --frames 10 --calibration 80",
        f"edgedla quantize {DETECTOR} --data data/calibration.npz --min-sqnr 20 -o scales --report",
        "cp scales/report.html quantize.html",
    ),
    "sweep": (
        f"python {EXAMPLES}/07_sweep/make_models.py",
        "edgedla sweep zoo --target agx-orin-64gb,orin-nx-16gb@jp6.1,orin-nano-8gb --precision fp16,int8 -o sweep.html",
    ),
    "live": (
        f"python {EXAMPLES}/00_shapes_detector/make_data.py data --frames 60",
        f"edgedla build {DETECTOR} --precision fp16 -o detector",
    ),
}
#: Of the live page, and what it shows.
PORT = 8799
LIVE = """\
version: 2
sources:
  gate: {uri: data/shapes.avi, loop: true, rate: 10}
  yard: {uri: data/shapes.avi, loop: true, rate: 5}
models:
  shapes: {artifact: detector, decode: {kind: yolov8, reg_max: 8, score: 0.5, labels: [circle, square, triangle]}}
stop_after: {seconds: 60}
"""
#: Pictures that are kept at all widths and modes; of the others the desktop's is.
EVERY_LOOK = ("check", "compare")
#: name -> height of its pictures at 1280 pixels, where the page goes on with what the text does not speak of.
CUT = {"live": 690, "sweep": 720, "quantize": 1000, "place": 1100}


def cut(path: Path, height: int) -> None:
    """Keeps the upper part of a picture, in docs/pictures."""
    from PIL import Image

    with Image.open(path) as picture:
        kept = picture.crop((0, 0, picture.width, min(height, picture.height)))
        kept.save(ROOT / "docs" / "pictures" / path.name, optimize=True)


def shoot_live(folder: Path) -> None:
    """Two looped videos on the live page of a run, in the folder's live-desktop.png."""
    import io

    from PIL import Image
    from screenshots import COLOURS, browser

    (folder / "live.yaml").write_text(LIVE, encoding="utf-8")
    words = [sys.executable, "-m", "edgedla", "run", "live.yaml", "--view", str(PORT)]
    running = subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL)
    driver = browser(1280, False)
    try:
        time.sleep(8)
        driver.get(f"http://127.0.0.1:{PORT}/")
        time.sleep(5)
        picture = Image.open(io.BytesIO(driver.get_screenshot_as_png())).convert("RGB")
    finally:
        driver.quit()
        running.terminate()
        running.wait()
    picture.quantize(COLOURS, dither=Image.Dither.NONE).save(folder / "live-desktop.png", optimize=True)


def main() -> int:
    wide = 0
    for name in sys.argv[1:] or list(PICTURES):
        with tempfile.TemporaryDirectory() as folder:
            for command in PICTURES[name]:
                words = shlex.split(command)
                program = {"python": [sys.executable], "edgedla": [sys.executable, "-m", "edgedla"]}.get(
                    words[0], words[:1]
                )
                subprocess.run([*program, *words[1:]], cwd=folder, check=True, stdout=subprocess.DEVNULL)
            if name == "live":
                shoot_live(Path(folder))
            else:
                sys.argv = [sys.argv[0], folder, str(Path(folder) / f"{name}.html")]
                wide += shoot()
            for look in SHOTS if name in EVERY_LOOK else ("desktop",):
                cut(Path(folder) / f"{name}-{look}.png", CUT.get(name, MOST_HEIGHT))
    return 1 if wide else 0


if __name__ == "__main__":
    sys.exit(main())
