"""A stub of sensor_msgs."""

from __future__ import annotations
