"""HTML pages of one look: base layout, stylesheet and components, for every report that edgedla writes."""

from __future__ import annotations

from edgedla.reports.page.figures import Bar, Fact, Figure, Part, Verdict
from edgedla.reports.page.render import render_page

__all__ = ["Bar", "Fact", "Figure", "Part", "Verdict", "render_page"]
