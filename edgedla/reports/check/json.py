"""A check report as the document `edgedla.check`; several reports, or unchecked models, as `edgedla.check-list`."""

from __future__ import annotations

from typing import Sequence

from edgedla.io.documents import header
from edgedla.regions.report import CheckReport
from edgedla.reports.check.view import CheckView
from edgedla.reports.json_document import dump


def to_json(reports: Sequence[CheckReport], view: CheckView) -> str:
    """A single report as `edgedla.check`; otherwise `edgedla.check-list`, with all reports and the models without one."""
    if len(reports) == 1 and not view.unchecked:
        return dump(reports[0].to_dict())
    return dump(
        {
            **header("edgedla.check-list"),
            "reports": [report.to_dict() for report in reports],
            "unchecked": [model.to_dict() for model in view.unchecked],
        }
    )
