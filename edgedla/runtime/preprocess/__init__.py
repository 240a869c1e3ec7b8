"""From a camera frame to the model's input tensor."""

from __future__ import annotations
