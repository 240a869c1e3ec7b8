"""A stub of vision_msgs."""

from __future__ import annotations
