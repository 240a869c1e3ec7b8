"""As much of rclpy as the node uses. `published` holds what was published: (topic, message)."""

from __future__ import annotations

import threading
from types import SimpleNamespace

published = []
context = SimpleNamespace(on_shutdown=lambda call: None)
_ended = threading.Event()


def init():
    _ended.clear()


def spin(node):
    _ended.wait(60)


def try_shutdown():
    _ended.set()


def get_default_context():
    return context
