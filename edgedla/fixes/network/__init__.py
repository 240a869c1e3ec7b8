"""An ONNX model as rewrites see it: users of each value, static shapes, constants, and new nodes in place of old ones."""

from __future__ import annotations
