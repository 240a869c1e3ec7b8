"""The result of a step: findings, each an expectation with what was seen, and the step's verdict."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Tuple

from edgedla.text.printable import Fields


class Skip(Exception):
    """The step cannot be tried here; the text says why."""


@dataclass(frozen=True)
class Finding:
    """One comparison. `expected` None: no expectation, `seen` is only recorded.

    Attributes:
        source: the basis of the expectation: a rule id, a file under rules/, an artifact's manifest.
        data: numbers and names for the ingest, plain JSON.
    """

    name: str
    seen: str
    expected: Optional[str] = None
    source: str = ""
    data: Dict[str, Any] = field(default_factory=dict)

    @property
    def differs(self) -> bool:
        return self.expected is not None and self.expected != self.seen

    def to_dict(self) -> Dict[str, Any]:
        return {**vars(self), "differs": self.differs}


@dataclass(frozen=True)
class StepResult(Fields):
    """One step. `state`: ok, differs (not as expected), failed (the step broke) or skipped; `reason`: why it failed or was skipped."""

    id: str
    state: str
    seconds: float
    reason: str = ""
    findings: Tuple[Dict[str, Any], ...] = ()


def state_of(findings: List[Dict[str, Any]]) -> str:
    return "differs" if any(f["differs"] for f in findings) else "ok"
