"""What whoever asks for a check report chose: files, width, how much of it."""

from __future__ import annotations

from typing import NamedTuple, Optional, Sequence, Tuple

from edgedla.regions.report import CheckReport
from edgedla.reports.unchecked import Unchecked


class CheckView(NamedTuple):
    """How check reports are shown.

    Attributes:
        files: the models' paths, one a report; None where they came from no file.
        fail_on: what JUnit counts as a failure, see edgedla.reports.gate.FAIL_ON.
        terminal: text with colours, wrapped to the terminal.
        everything: text with every layer (`--all`), not the summary of one screen.
        quiet: text with one line per model (`-q`).
        unchecked: models that were asked about and have no report.
    """

    files: Optional[Tuple[str, ...]] = None
    fail_on: str = "unsupported"
    terminal: bool = False
    everything: bool = False
    quiet: bool = False
    unchecked: Tuple[Unchecked, ...] = ()

    def paths(self, reports: Sequence[CheckReport]) -> Tuple[str, ...]:
        """One path a report: as given, or the model's name."""
        return self.files or tuple(report.model for report in reports)

    def commands(self, reports: Sequence[CheckReport]) -> Tuple[str, ...]:
        """One path a report as a command takes it."""
        return self.files or tuple(f"{report.model}.onnx" for report in reports)
