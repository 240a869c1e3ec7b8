"""A check report as one HTML file without network, fonts or scripts: figures, ranking, findings, coloured graph."""

from __future__ import annotations

import os
from typing import Sequence

from edgedla.regions.cap import subgraphs_per_core
from edgedla.regions.report import CheckReport
from edgedla.reports import summary
from edgedla.reports.graph_drawing import BOX_H, BOX_W, draw, kind_of_end
from edgedla.reports.text import clean
from edgedla.version import __version__


def to_html(reports: Sequence[CheckReport]) -> str:
    """All reports in one page. Names from the model are escaped; a policy in the page forbids every load."""
    # Jinja2 costs 20 ms; only this form needs it.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    folder = os.path.join(os.path.dirname(__file__), "templates")
    environment = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        clean=clean, percent=summary.percent, macs=summary.macs_text, count=summary.count, fixes=summary.fix_text
    )
    page: str = environment.get_template("check.html.j2").render(
        version=__version__,
        box_w=BOX_W,
        box_h=BOX_H,
        reports=[
            {
                "report": report,
                "subject": summary.subject(report),
                "headline": summary.headline(report),
                "limit": subgraphs_per_core(report.platform) if report.platform.has_dla else 0,
                "sections": summary.sections(report),
                "unknowns": summary.unknowns(report),
                "costs": list(summary.costs(report)),
                "drawing": draw(report.layers),
                "kinds": [kind_of_end(layer) for layer in report.layers],
            }
            for report in reports
        ],
    )
    return page
