"""As much of diagnostic_msgs as the node uses."""

from __future__ import annotations

from types import SimpleNamespace


class DiagnosticArray:
    def __init__(self):
        self.header, self.status = SimpleNamespace(stamp=None, frame_id=""), []


class DiagnosticStatus:
    OK, WARN, ERROR, STALE = b"\x00", b"\x01", b"\x02", b"\x03"
    __slots__ = ("level", "name", "message", "hardware_id", "values")


class KeyValue:
    def __init__(self, key="", value=""):
        self.key, self.value = key, value
