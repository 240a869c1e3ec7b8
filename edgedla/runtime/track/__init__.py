"""Ids for detections that last from frame to frame."""

from __future__ import annotations
