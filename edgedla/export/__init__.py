"""Hand-over to other runtimes: the files that DeepStream, Triton, ONNX Runtime and Savant read. One runtime per file."""

from __future__ import annotations

from edgedla.export.handover import ExportRequest
from edgedla.export.write import RUNTIMES, Exported, export

__all__ = ["RUNTIMES", "ExportRequest", "Exported", "export"]
