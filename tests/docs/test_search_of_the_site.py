"""The search of the built site finds the page that answers a question among its first three, also from disk.

Needs a built site (`make docs`) and Chromium; EDGEDLA_SITE names another folder.
"""

from __future__ import annotations

import functools
import http.server
import os
import re
import threading
from pathlib import Path
from typing import Iterator, List

import pytest

from docs.chrome import CHROMIUM, Page, open_page
from docs.generator.search_order import LATER

ROOT = Path(__file__).resolve().parents[2]
SITES = sorted((ROOT / "build" / "docs" / "site").glob("*/search.json"))
SITE = Path(os.environ["EDGEDLA_SITE"]) if "EDGEDLA_SITE" in os.environ else SITES[-1].parent if SITES else None
#: What people type -> a page that answers.
QUESTIONS = {
    "why gpu": "howto/layer-on-gpu",
    "int8 calibration": "howto/int8-accuracy|explanation/int8-scales|tutorials/make-it-fit|guide/build-engines",
    "deepstream": "howto/deepstream",
    "two cameras": "tutorials/camera-pipeline|examples/05_many_cameras",
    "sigmoid": "howto/slower-on-dla",
    "dla slower": "howto/slower-on-dla",
    "kernel size": "howto/layer-on-gpu|reference/rules/CONV\\d+|reference/rules/index",
    "dynamic batch": "howto/dynamic-batch",
    "orin nano": "reference/modules/",
    "jetpack 5": "glossary|reference/modules/|jetson|install",
    "rtsp": "tutorials/camera-pipeline|reference/pipeline",
    "cudla": "howto/cudla",
    "loadable": "glossary|howto/cudla",
    "accuracy drop": "howto/int8-accuracy",
    "sram": "howto/memory-pools|glossary",
    "tensor format": "howto/tensor-formats",
    "cuda graph": "howto/cuda-graphs",
    "tegrastats": "howto/tegrastats",
    "isaac ros": "howto/other-runtimes",
    "compare boards": "howto/which-board",
    "live page": "tutorials/camera-pipeline",
    "webcam": "tutorials/camera-pipeline",
    "notebook": "examples/11_in_a_notebook",
    "deploy": "guide/one-call",
    "my own model": "tutorials/check-a-model",
    "which board should I buy": "howto/which-board",
    "my INT8 model lost accuracy": "howto/int8-accuracy",
    "worth": "glossary",
    "verdict": "glossary",
    "fix": "reference/commands/fix",
    "fix a model": "examples/10_fix_a_model|tutorials/make-it-fit",
    "keras": "guide/one-call",
    "ultralytics": "guide/one-call",
    "jupyter": "examples/11_in_a_notebook",
    "how do I install it?": "install",
    "what does CONV010 mean": "reference/rules/CONV010",
    "static-shapes": "reference/remedies/static-shapes",
    "how many DLA cores has Orin NX": "reference/modules/orin-nx|reference/modules/index|howto/which-board|explanation|glossary",
    "is my model faster on the DLA": "howto/slower-on-dla|tutorials/check-a-model|glossary|explanation/cost-model|howto/which-board",
    "what is INT8 calibration": "howto/int8-accuracy|explanation/int8-scales|tutorials/make-it-fit|guide/build-engines",
    "quantize pictures": "tutorials/make-it-fit|guide/build-engines",
    "spread": "glossary|explanation/cost-model",
}
#: Links within the search, which the theme draws in shadow trees.
FOUND = """(() => {
  const links = [];
  const walk = (root) => root.querySelectorAll("*").forEach((e) => {
    if (e.shadowRoot) walk(e.shadowRoot);
    if (e.tagName === "A" && root !== document) links.push(e.href);
  });
  walk(document);
  return links.filter((link) => link.includes("h="));
})()"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.once,
    pytest.mark.skipif(not CHROMIUM, reason="no Chromium on this machine"),
    pytest.mark.skipif(SITE is None, reason="no site is built: make docs"),
]


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with open_page(1280, 900) as opened:
        yield opened


def search(page: Page, words: str, site: str = "") -> List[str]:
    """The pages that the search shows first, without repeating one; `site` is the address, without it the folder on disk."""
    assert SITE is not None
    site = site or SITE.as_uri()
    page.go(f"{site}/index.html")
    page.until("document.querySelector('.md-search') !== null && document.documentElement.classList.contains('js')")
    for kind in ("keyDown", "keyUp"):
        page.call("Input.dispatchKeyEvent", type=kind, key="/", **({"text": "/"} if kind == "keyDown" else {}))
    page.until("document.activeElement !== document.body")
    page.call("Input.insertText", text=words)
    page.until(f"{FOUND}.length > 0", 10)
    page.ask("new Promise((done) => setTimeout(done, 500))")
    paths = [link.replace(f"{site}/", "").split("?")[0] for link in page.ask(FOUND)]
    return list(dict.fromkeys(paths))


@pytest.mark.parametrize("words", QUESTIONS)
def test_a_question_finds_its_page_among_the_first_three(page: Page, words: str) -> None:
    first = search(page, words)[:3]
    assert any(re.match(QUESTIONS[words], path) for path in first), first


@pytest.mark.parametrize("words", ["softmax", "isaac ros", "sigmoid", "verdict"])
def test_short_pages_of_the_reference_stand_behind_written_ones(page: Page, words: str) -> None:
    found = search(page, words)
    steps = [sum(bool(re.match(pattern, path)) for pattern in LATER) for path in found]
    assert steps[0] == 0
    assert steps == sorted(steps), found


def test_a_page_whose_name_is_typed_comes_first(page: Page) -> None:
    for words, path in {"CONV010": "reference/rules/CONV010", "edgedla check": "reference/commands/check"}.items():
        assert search(page, words)[0] == f"{path}.html"


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        """Writes nothing."""


def test_a_served_site_finds_the_same_pages(page: Page) -> None:
    handler = functools.partial(_Quiet, directory=str(SITE))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for words in ("isaac ros", "what does CONV010 mean"):
            served = search(page, words, f"http://127.0.0.1:{server.server_port}")
            # How many more are shown by then depends on the machine's load.
            assert served[:3] == search(page, words)[:3], words
        server.shutdown()
