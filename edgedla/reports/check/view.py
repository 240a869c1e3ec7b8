"""The view of a check report that the caller asked for: files, width, amount of detail."""

from __future__ import annotations

from typing import NamedTuple, Optional, Sequence, Tuple

from edgedla.regions.report import CheckReport
from edgedla.reports.unchecked import Unchecked


class CheckView(NamedTuple):
    """How check reports are shown.

    Attributes:
        files: the models' paths, one per report; None if they came from no file.
        fail_on: what JUnit counts as a failure, see edgedla.reports.gate.FAIL_ON.
        terminal: text with colours, wrapped to the terminal.
        everything: text with every layer (`--all`), not the summary of one screen.
        quiet: text with one line per model (`-q`).
        unchecked: models without a report.
        broken: (limit or "baseline", file, sentence) of each that a model breaks.
    """

    files: Optional[Tuple[str, ...]] = None
    fail_on: str = "unsupported"
    terminal: bool = False
    everything: bool = False
    quiet: bool = False
    unchecked: Tuple[Unchecked, ...] = ()
    broken: Tuple[Tuple[str, str, str], ...] = ()

    def paths(self, reports: Sequence[CheckReport]) -> Tuple[str, ...]:
        """One path per report: as given, or the model's name."""
        return self.files or tuple(report.model for report in reports)

    def commands(self, reports: Sequence[CheckReport]) -> Tuple[str, ...]:
        """One path per report, quoted as a command takes it."""
        return self.files or tuple(f"{report.model}.onnx" for report in reports)
