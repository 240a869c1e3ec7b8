"""A placement as one HTML file without network, fonts or scripts."""

from __future__ import annotations

import os

from edgedla.placement.result.placement import Placement
from edgedla.reports.placement_text import GOALS, proof_text, value_text
from edgedla.reports.placement_timeline import KINDS, labels, timeline_svg
from edgedla.reports.text import clean
from edgedla.version import __version__


def to_html(placement: Placement) -> str:
    """The page. Names from the model are escaped; a policy in the page forbids every load."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    folder = os.path.join(os.path.dirname(__file__), "templates")
    environment = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["clean"] = clean
    baselines = [(b.title, b.figures, b.broken) for b in placement.baselines]
    page: str = environment.get_template("placement.html.j2").render(
        placement=placement,
        names=", ".join(clean(m.name) for m in placement.models),
        goal=GOALS[placement.objective],
        value=value_text(placement),
        proof=proof_text(placement),
        rows=[("this placement", placement.figures, ()), *baselines],
        kind=KINDS[placement.timeline.kind],
        legend=labels([m.name for m in placement.models]),
        svg=timeline_svg(placement),
        version=__version__,
    )
    return page
