"""Every page uses the shared layout, and its internal links have targets."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import List, Optional, Tuple

import pytest

import edgedla
from edgedla.placement.pareto import pareto
from edgedla.placement.request import PlacementRequest
from edgedla.reports.pareto_html import to_html as front_page
from edgedla.reports.sweeps.page import sweep_page
from edgedla.sweep.row import COLUMNS

TEMPLATES = Path(edgedla.__file__).parent / "reports/templates"
PAGES = sorted(p.name for p in TEMPLATES.glob("*.html.j2") if p.name not in ("base.html.j2", "components.html.j2"))
ROOT = Path(__file__).resolve().parents[2]
SHAPES = ROOT / "examples/00_shapes_detector/shapes_detector.onnx"


@pytest.mark.parametrize("name", [n for n in PAGES if n != "table_cells.html.j2"])
def test_navigation_links_of_a_page_have_their_section(name: str) -> None:
    text = (TEMPLATES / name).read_text(encoding="utf-8")
    assert '{% extends "base.html.j2" %}' in text
    for links in re.findall(r"\.nav\(\[(.*?)\]\)", text):
        for link in re.findall(r'\("([\w-]+)",', links):
            # A page of several models has a letter of the model before each id.
            places = (f'head("{link[2:]}"',) if link.startswith("h-") else (f'id="{link}"', f'id="{{{{ p }}}}{link}"')
            assert any(place in text for place in places), f"{name} links to #{link}"


class Ids(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.ids: List[str] = []
        self.links: List[str] = []
        self.loads: List[str] = []

    def handle_starttag(self, tag: str, attrs: List[Tuple[str, Optional[str]]]) -> None:
        values = dict(attrs)
        if values.get("id"):
            self.ids.append(str(values["id"]))
        if tag == "a" and (values.get("href") or "").startswith("#"):
            self.links.append(str(values["href"])[1:])
        self.loads += [str(values[key]) for key in ("src", "srcset") if values.get(key)]


def checked_page(page: str) -> Ids:
    found = Ids()
    found.feed(page)
    assert set(found.links) <= set(found.ids)
    assert len(found.ids) == len(set(found.ids))
    assert not found.loads
    assert "Content-Security-Policy" in page
    return found


def test_the_page_of_a_pareto_front_has_valid_links() -> None:
    front = pareto(str(SHAPES), PlacementRequest(target="orin-nx-16gb"), ("latency", "energy"))
    page = front_page(front)
    checked_page(page)
    assert page.count("<circle") == len(front.points) > 0
    assert "orin" in page.lower()
    assert "predicted" in page


def row(model: str, layers_gpu: int, status: str = "ok") -> dict:
    values = dict.fromkeys(COLUMNS)
    values.update(
        key=model,
        model=model,
        sha256=model,
        platform="orin-nx-16gb",
        precision="fp16",
        status=status,
        reason="why it ended",
        layers_dla=5,
        layers_gpu=layers_gpu,
        share_macs_dla=1.0,
    )
    return values


def test_the_page_of_a_sweep_begins_with_its_verdict() -> None:
    page = sweep_page([row("a", 0), row("b", 3)], COLUMNS, {})
    checked_page(page)
    assert "1 of 2 models on orin-nx-16gb, FP16, with every layer on the DLA." in page
    assert "Every row has an answer" in page
    assert page.index('class="verdict card"') < page.index('id="h-platforms"')
    broken = sweep_page([row("a", 0), row("b", 3, "model-error")], COLUMNS, {})
    assert "1 of 2. First: why it ended" in broken
    checked_page(sweep_page([], COLUMNS, {}))
