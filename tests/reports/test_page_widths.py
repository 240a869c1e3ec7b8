"""Pages of models with long names and long paths fit the window: nothing sticks out of its box, and nothing is cut off."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from edgedla.cli.main import exit_code_of
from edgedla.runtime import live
from edgedla.runtime.live.server import SHEET, page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), "")
MODEL = Path(__file__).resolve().parents[2] / "examples" / "00_shapes_detector" / "shapes_detector.onnx"
LIVE_SHEET = Path(live.__file__).parent / "templates" / "live.css"
LONG = "a_detector_of_the_northern_gate_whose_name_does_not_end_so_soon_v12_final"

#: Opens every page at every width; what passes its right edge is named, unless a box around it scrolls.
MEASURE = """<body><script>
const found = [];
function within(e, width) {
  for (let box = e; box; box = box.parentElement) {
    if (box.getBoundingClientRect().right > width + 1) continue;
    if (["auto", "scroll"].includes(box.ownerDocument.defaultView.getComputedStyle(box).overflowX)) return true;
  }
  return e.closest(".vh, svg") !== null;
}
async function measure(page, width) {
  const frame = document.createElement("iframe");
  frame.style = `border: 0; height: 900px; width: ${width}px`;
  await new Promise((ready) => { frame.onload = ready; frame.src = page; document.body.append(frame); });
  for (const e of frame.contentDocument.querySelectorAll("main *")) {
    const r = e.getBoundingClientRect();
    if (r.width && r.right > width + 1 && !within(e, width)) found.push(`${page} ${width} ${e.tagName}.${e.className}`);
  }
  frame.remove();
}
(async () => {
  for (const page of PAGES) for (const width of [390, 1000, 1300]) await measure(page, width);
  document.body.innerHTML = "<pre>measured " + [...new Set(found)].join(";") + "</pre>";
})();
</script></body>"""


def live_page() -> bytes:
    """The page of `run --view` with one camera and one model."""
    source = {
        "name": LONG,
        "key": LONG,
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
        "why": "",
    }
    return page(
        {
            "title": "p.yaml",
            "up_s": 1.0,
            "time": "1",
            "simulated": True,
            "sources": [source],
            "stages": [],
            "load": [{"name": f"{LONG} on DLA0", "share": 0.5}],
            "gauges": [],
            "models": [{"name": LONG, "rate": 1.0, "results": 1}],
            "health": {"level": "ok", "word": "All live", "tell": f"{LONG} is live."},
            "warnings": [{"time": "1", "level": "warn", "text": f"http://{LONG}.{LONG}/{LONG}: no more frames"}],
        }
    )


@pytest.mark.skipif(not CHROMIUM, reason="no chromium on this machine")
@pytest.mark.once
def test_pages_with_long_names_fit_the_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "models_of_a_customer_with_a_long_name" / "release_candidates_of_the_third_quarter"
    folder.mkdir(parents=True)
    model = folder / f"{LONG}.onnx"
    shutil.copy(MODEL, model)
    monkeypatch.chdir(tmp_path)
    pages = {
        "check.html": ["check", str(model), "--target", "orin-nx-16gb"],
        "table.html": ["check", str(model), "--compare", "orin-nx-16gb,xavier-nx-8gb@int8"],
        "place.html": ["place", str(model), "--target", "agx-orin-64gb", "--objective", "throughput"],
    }
    for name, words in pages.items():
        assert exit_code_of([*words, "-o", name]) in (0, 1)
    (tmp_path / "live.html").write_bytes(live_page())
    (tmp_path / "style.css").write_bytes(SHEET.read_bytes() + LIVE_SHEET.read_bytes())
    (tmp_path / "measure.html").write_text(MEASURE.replace("PAGES", str([*pages, "live.html"])), encoding="utf-8")
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--allow-file-access-from-files",
        "--disable-web-security",
        f"--user-data-dir={tmp_path}/profile",
        "--virtual-time-budget=30000",
        "--dump-dom",
    ]
    done = subprocess.run(
        [CHROMIUM, *flags, (tmp_path / "measure.html").as_uri()], capture_output=True, text=True, timeout=120, check=True
    )
    measured = re.search(r"<pre>measured ([^<]*)</pre>", done.stdout)
    assert measured is not None, done.stdout[-500:]
    assert not html.unescape(measured[1])
