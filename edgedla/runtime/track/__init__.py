"""Numbers for detections that persist from frame to frame."""

from __future__ import annotations
