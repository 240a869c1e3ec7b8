"""The search of the built site finds the page that answers a question among its first three, also from disk.

Needs a built site (`make docs`) and Chromium; EDGEDLA_SITE names another folder.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Iterator, List

import pytest

from docs.chrome import CHROMIUM, Page, open_page

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
    "kernel size": "reference/rules/CONV\\d+|reference/rules/index",
    "dynamic batch": "howto/dynamic-batch",
    "orin nano": "reference/modules/",
    "jetpack 5": "reference/modules/|jetson|install",
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
    "deploy": "guide/one-call|reference/commands/deploy",
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


def search(page: Page, words: str) -> List[str]:
    """The pages that the search shows first, without repeating one."""
    assert SITE is not None
    page.go(f"{SITE.as_uri()}/index.html")
    page.until("document.querySelector('.md-search') !== null && document.documentElement.classList.contains('js')")
    for kind in ("keyDown", "keyUp"):
        page.call("Input.dispatchKeyEvent", type=kind, key="/", **({"text": "/"} if kind == "keyDown" else {}))
    page.until("document.activeElement !== document.body")
    page.call("Input.insertText", text=words)
    page.until(f"{FOUND}.length > 0", 10)
    page.ask("new Promise((done) => setTimeout(done, 500))")
    paths = [link.replace(f"{SITE.as_uri()}/", "").split("?")[0] for link in page.ask(FOUND)]
    return list(dict.fromkeys(paths))


@pytest.mark.parametrize("words", QUESTIONS)
def test_a_question_finds_its_page_among_the_first_three(page: Page, words: str) -> None:
    first = search(page, words)[:3]
    assert any(re.match(QUESTIONS[words], path) for path in first), first
