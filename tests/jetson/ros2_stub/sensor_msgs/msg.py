"""As much of sensor_msgs as the node uses."""

from __future__ import annotations

from types import SimpleNamespace


class Image:
    """https://docs.ros.org/en/humble/p/sensor_msgs/interfaces/msg/Image.html"""

    def __init__(self, **fields):
        self.header = SimpleNamespace(stamp=SimpleNamespace(sec=0, nanosec=0), frame_id="")
        self.height = self.width = self.step = 0
        self.encoding, self.data = "", b""
        vars(self).update(fields)
