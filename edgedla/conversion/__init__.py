"""Models of other frameworks as ONNX, each converted in a process of its own and compared with its source."""

from __future__ import annotations
