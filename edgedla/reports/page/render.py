"""Renders pages: one template environment and one stylesheet for all of them."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Iterable

from edgedla.reports import words
from edgedla.reports.page import figures, numbers, verdict
from edgedla.reports.text import clean
from edgedla.version import version

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

FOLDER = os.path.join(os.path.dirname(os.path.dirname(__file__)), "templates")


def render_page(template: str, *, command: str, title: str, **values: Any) -> str:
    """One HTML file without scripts, fonts or external resources; a policy in the page forbids loading any.

    Args:
        template: file under reports/templates that extends base.html.j2.
        command: the command that made it, shown at the top: "check".
        title: title of the browser's window.
    """
    page: str = _environment().get_template(template).render(command=command, title=title, **values)
    return page


@lru_cache(maxsize=None)
def _environment() -> Environment:
    # Jinja2 costs 20 ms; only pages need it.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader(FOLDER), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(
        breakable=breakable,
        clean=clean,
        count=words.count,
        lines=lines,
        longest=longest,
        macs=words.macs_text,
        mb=numbers.megabytes,
        ms=numbers.milliseconds,
        percent=words.percent,
        place=words.place_of,
        sig=numbers.significant,
        signed=numbers.signed,
        signed_count=numbers.signed_count,
        ticked=ticked,
    )
    with open(os.path.join(FOLDER, "style.css"), encoding="utf-8") as f:
        environment.globals.update(style=Markup(f.read()), version=version(), tones=verdict.TONES)
    environment.globals.update(widest=figures.widest)
    return environment


def lines(text: str) -> str:
    """Several lines for a title attribute, each made safe."""
    return "\n".join(clean(line) for line in text.split("\n"))


def longest(cells: Iterable[Any]) -> float:
    """The longest time in a row of a table: the scale of the row's bars."""
    times = [cell.time_us(way) for cell in cells for way in ("tensorrt", "gpu")]
    return max((t for t in times if t), default=1.0)


def breakable(name: str) -> Markup:
    """A name from a model, escaped; it may break after `/`, `_` and `.`."""
    from markupsafe import Markup, escape

    text = str(escape(clean(name)))
    for mark in "/_.":
        text = text.replace(mark, f"{mark}<wbr>")
    return Markup(text)


def ticked(text: str) -> Markup:
    """A sentence, escaped; what stands in backticks is code."""
    from markupsafe import Markup, escape

    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(clean(text)))))
