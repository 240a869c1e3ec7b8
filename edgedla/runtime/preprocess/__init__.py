"""From a camera frame to the tensor that a model reads."""

from __future__ import annotations
