"""The pictures of the documentation, from commands: `make pictures`, or `python docs/make_pictures.py [NAME...]`.

Needs Chromium, pillow, nbconvert, ipykernel, pandas, and edgedla with the extras host and fix. Each picture NAME-LOOK.png in docs/pictures
has NAME.json beside it: the texts with a number that it shows. tests/docs/test_pictures.py asks the commands again and compares.
`first-minutes` is drawn, by docs/animation.py, and needs no Chromium; `home-assistant` needs what docs/home_assistant.py says, and is left
out without it.
"""

from __future__ import annotations

import io
import json
import re
import shlex
import subprocess
import sys
import tempfile
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Dict, List, Tuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from docs import home_assistant  # noqa: E402
from docs.animation import draw, record  # noqa: E402
from docs.chrome import Page, open_page  # noqa: E402

PICTURES = ROOT / "docs" / "pictures"
EXAMPLES = ROOT / "examples"
DETECTOR = EXAMPLES / "00_shapes_detector" / "shapes_detector.onnx"
STREET = f"python {EXAMPLES}/01_check_a_model/make_model.py street.onnx"
MOBILENET = f"python {EXAMPLES}/12_mobilenet/make_model.py mobilenet_v3_small.onnx"
DATA = f"python {EXAMPLES}/00_shapes_detector/make_data.py data"
ORIN = "--target agx-orin-64gb --precision fp16"
#: Example 05 with a film that lasts until the picture is taken.
CAMERAS = (
    f"cp -r {EXAMPLES}/05_many_cameras/. .",
    f"{DATA} --frames 900 --calibration 1",
    f"edgedla build {DETECTOR} {ORIN} -o data/detector",
)
#: name of the picture -> commands, the last of which writes NAME.html (or the page that is named).
COMMANDS: Dict[str, Tuple[str, ...]] = {
    "worth": (
        MOBILENET,
        "edgedla fix mobilenet_v3_small.onnx --target orin-nx-16gb --precision int8 -o fixed.onnx",
        "edgedla check fixed.onnx --target orin-nx-16gb --fail-on never -o worth.html",
    ),
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
    "fix": (
        MOBILENET,
        "edgedla fix mobilenet_v3_small.onnx --target orin-nx-16gb --precision int8 -o fixed.onnx --report fix.html",
    ),
    "quantize": (
        f"{DATA} --frames 10 --calibration 80",
        f"edgedla quantize {DETECTOR} --data data/calibration.npz --min-sqnr 20 -o scales --report",
        "cp scales/report.html quantize.html",
    ),
    "sweep": (
        f"python {EXAMPLES}/07_sweep/make_models.py",
        "edgedla sweep zoo --target agx-orin-64gb,orin-nx-16gb@jp6.1,orin-nano-8gb --precision fp16,int8 -o sweep.html",
    ),
    "notebook": (
        f"cp -r {EXAMPLES}/00_shapes_detector {EXAMPLES}/12_mobilenet {EXAMPLES}/11_in_a_notebook .",
        "python -m nbconvert --to html --execute --output-dir . --output notebook 11_in_a_notebook/check.ipynb",
    ),
    "camera": (
        f"edgedla build {DETECTOR} --target agx-orin-64gb --precision fp16 -o detector",
        "edgedla run detector --source synthetic:// --decode yolov8 --reg-max 8 --frames 20 --images frames --jsonl seen.jsonl",
    ),
    "live": (f"edgedla build {DETECTOR} --precision fp16 -o detector",),
    "cameras": (
        *CAMERAS,
        "python make_colour_model.py data/colour.onnx",
        f"edgedla build data/colour.onnx {ORIN} -o data/colour",
    ),
    "events": CAMERAS,
    "home-assistant": (f"edgedla build {DETECTOR} {ORIN} -o detector",),
}
#: Pictures of the live page -> the file of the pipeline. They show rates of the machine that drew them: their words are compared.
LIVE = {"live": "live.yaml", "cameras": "pipeline.yaml", "events": "objects.yaml"}
#: Written by its script.
WRITTEN_BY_SCRIPT = ("sweep",)
#: name -> (width, dark). Pictures are cut at MOST_HEIGHT; few colours keep the files small.
LOOKS = {"desktop": (1280, False), "phone": (390, False), "dark": (1280, True)}
MOST_HEIGHT, COLOURS = 1700, 64
#: Pictures that are kept in all looks; of the others the desktop's is.
EVERY_LOOK = ("check", "compare")
#: name -> height of its pictures, where the page goes on with what the text does not speak of.
CUT = {
    "home-assistant": 840,
    "live": 740,
    "cameras": 790,
    "events": 910,
    "sweep": 1100,
    "quantize": 1000,
    "place": 1100,
    "worth": 970,
    "fix": 1400,
}
#: Of the live page, and what the first one shows.
PORT = 8799
TWO_CAMERAS = """\
version: 2
sources:
  gate: {uri: "synthetic://?width=400&height=400&seed=1", rate: 10}
  yard: {uri: "synthetic://?width=400&height=400&seed=2", rate: 5}
models:
  shapes: {artifact: detector, decode: {kind: yolov8, reg_max: 8, score: 0.5}}
stop_after: {seconds: 60}
"""
#: Corners of the zone that is drawn in the picture of events, as shares of the camera's picture.
ZONE = ((0.05, 0.55), (0.5, 0.4), (0.95, 0.55), (0.95, 0.95), (0.05, 0.95))
#: Draws it as a user does, with clicks; the answer is the YAML that the page makes of it.
_DRAW = """(() => {
  const tile = document.querySelector(".tile"), picture = tile.querySelector("img").getBoundingClientRect();
  tile.querySelector("[data-do=start]").click();
  for (const [x, y] of ZONE) {
    const at = {clientX: picture.left + x * picture.width, clientY: picture.top + y * picture.height, bubbles: true};
    tile.querySelector("figure").dispatchEvent(new MouseEvent("click", at));
  }
  return tile.querySelector("textarea").value;
})()"""
#: Names the code that answered, not what it answered; and rounding, which differs by processor.
_IDENTITY = re.compile(r"edgedla \d|\b[0-9a-f]{7,}\b|\de-\d\d")
#: Texts of the part of a page that a picture of this height shows.
_SHOWN = """(() => {
  const found = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walk.nextNode());) {
    if (["SCRIPT", "STYLE"].includes(node.parentElement.tagName)) continue;
    const range = document.createRange(); range.selectNodeContents(node);
    const box = range.getBoundingClientRect();
    if (box.width > 1 && box.height > 1 && box.bottom + scrollY <= HEIGHT) found.push(node.data);
  }
  return found;
})()"""


#: Texts of the cards of Home Assistant's page, whose elements have trees of their own.
_CARDS = """(() => {
  const found = [];
  const walk = (node) => {
    if (node.nodeType === Node.TEXT_NODE && node.data.trim()) found.push(node.data.trim());
    if (["STYLE", "SCRIPT"].includes(node.nodeName)) return;
    for (const child of [...node.childNodes, ...(node.shadowRoot ? node.shadowRoot.childNodes : [])]) walk(child);
  };
  const find = (node) => {
    if (node.nodeName === "HUI-ENTITIES-CARD") return walk(node);
    for (const child of [...node.childNodes, ...(node.shadowRoot ? node.shadowRoot.childNodes : [])]) find(child);
  };
  find(document);
  return found;
})()"""


class Texts(HTMLParser):
    """The texts of a page, as the tree of a browser holds them."""

    def __init__(self) -> None:
        super().__init__()
        self.found: List[str] = []
        self._hidden = False

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self._hidden = tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self._hidden = False

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.found.append(data)


def figures(texts: List[str]) -> List[str]:
    """Texts that hold a number, without those that name a version or digest; sorted, each once."""
    plain = {" ".join(text.split()) for text in texts}
    return sorted(text for text in plain if re.search(r"\d", text) and not _IDENTITY.search(text))


def figures_of_page(path: Path) -> List[str]:
    parser = Texts()
    parser.feed(path.read_text(encoding="utf-8"))
    return figures(parser.found)


def run_commands(name: str, folder: Path) -> Path:
    """Runs a picture's commands in a folder; the path of its page."""
    for command in COMMANDS[name]:
        words = shlex.split(command)
        program = {"python": [sys.executable], "edgedla": [sys.executable, "-m", "edgedla"]}.get(words[0], words[:1])
        done = subprocess.run([*program, *words[1:]], cwd=folder, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return folder / f"{name}.html"


def shown(page: Page, height: int) -> List[str]:
    return figures(page.ask(_SHOWN.replace("HEIGHT", str(height))))


def save(png: bytes, path: Path) -> None:
    from PIL import Image

    picture = Image.open(io.BytesIO(png)).convert("RGB")
    picture.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)


def shoot(name: str, path: Path) -> None:
    """Takes the pictures of a page, and writes what the desktop's shows."""
    for look in LOOKS if name in EVERY_LOOK else ("desktop",):
        width, dark = LOOKS[look]
        with open_page(width, 1000, dark) as page:
            page.go(path.as_uri())
            height = min(int(page.ask("document.documentElement.scrollHeight")), CUT.get(name, MOST_HEIGHT))
            if page.ask("document.documentElement.scrollWidth > innerWidth"):
                raise RuntimeError(f"{name} scrolls sideways at {width} pixels")
            page.size(width, height)
            save(page.picture(), PICTURES / f"{name}-{look}.png")
            if look == "desktop":
                write(name, shown(page, height))


def write(name: str, texts: List[str]) -> None:
    text = json.dumps({"picture": name, "shows": texts}, indent=1, ensure_ascii=False) + "\n"
    (PICTURES / f"{name}.json").write_text(text, encoding="utf-8")


def shoot_live(name: str, folder: Path) -> None:
    """The live page of a run; of events with a zone that somebody draws."""
    if name == "live":
        (folder / LIVE[name]).write_text(TWO_CAMERAS, encoding="utf-8")
    command = [sys.executable, "-m", "edgedla", "run", LIVE[name], "--view", str(PORT)]
    running = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    try:
        with open_page(1280, CUT[name]) as page:
            page.go("about:blank#")
            page.until(f"fetch('http://127.0.0.1:{PORT}/', {{mode: 'no-cors'}}).then(() => true, () => false)")
            page.go(f"http://127.0.0.1:{PORT}/")
            page.ask("new Promise((done) => setTimeout(done, 6000))")
            drawn = page.ask(_DRAW.replace("ZONE", json.dumps(ZONE))).splitlines() if name == "events" else []
            save(page.picture(), PICTURES / f"{name}-desktop.png")
            write(name, [*words(page.ask(_SHOWN.replace("HEIGHT", str(CUT[name])))), *drawn])
    finally:
        running.terminate()
        running.wait()


def shoot_home(folder: Path) -> None:
    """Home Assistant's own view, where it is installed."""
    name, address = "home-assistant", f"http://127.0.0.1:{home_assistant.PORT}/"
    with home_assistant.running(folder), open_page(1000, CUT[name]) as page:
        page.go("about:blank#")
        page.until(f"fetch('{address}', {{mode: 'no-cors'}}).then(() => true, () => false)", 90)
        # It signs in by itself, over several addresses.
        page.call("Page.navigate", url=address)
        time.sleep(20)
        save(page.picture(), PICTURES / f"{name}-desktop.png")
        write(name, page.ask(_CARDS))


def join_frames(folder: Path) -> None:
    """The first and the last frame of a run, side by side."""
    from PIL import Image

    files = sorted((folder / "frames").glob("*.jpg"))
    frames = [Image.open(path) for path in (files[0], files[-1])]
    both = Image.new("RGB", (frames[0].width * 2 + 8, frames[0].height), "white")
    for i, frame in enumerate(frames):
        both.paste(frame, (i * (frame.width + 8), 0))
    both.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
        PICTURES / "camera-desktop.png", optimize=True
    )
    write("camera", seen(folder))


def seen(folder: Path) -> List[str]:
    """What stands in each frame of a run."""
    rows = [json.loads(line) for line in (folder / "seen.jsonl").read_text(encoding="utf-8").splitlines()]
    return [f"frame {row['frame']}: {', '.join(found['label'] for found in row['results'])}" for row in rows]


def words(texts: List[str]) -> List[str]:
    """Texts without a number, which a template holds; sorted, each once."""
    plain = {" ".join(text.split()).strip(", ") for text in texts}
    return sorted(text for text in plain if re.search(r"[a-z]", text) and not re.search(r"\d", text))


def main() -> int:
    for name in sys.argv[1:] or ("first-minutes", *(n for n in COMMANDS if n != "home-assistant" or home_assistant.PYTHON)):
        with tempfile.TemporaryDirectory() as folder:
            if name == "first-minutes":
                said = record(Path(folder))
                (PICTURES / f"{name}.svg").write_text(draw(said), encoding="utf-8")
                (PICTURES / f"{name}.json").write_text(json.dumps(said, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
                continue
            page = run_commands(name, Path(folder))
            if name in LIVE:
                shoot_live(name, Path(folder))
            elif name == "camera":
                join_frames(Path(folder))
            elif name == "home-assistant":
                shoot_home(Path(folder))
            else:
                shoot(name, page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
