"""A deployment as its document."""

from __future__ import annotations

from edgedla.deployment.deployment import Deployment
from edgedla.reports.json_document import dump


def to_json(deployment: Deployment, terminal: bool = False) -> str:
    return dump(deployment.to_dict())
