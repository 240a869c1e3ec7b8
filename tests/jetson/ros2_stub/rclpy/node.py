"""As much of rclpy.node as the node uses."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import rclpy

PARAMETERS = {}
#: topic -> callbacks.
SUBSCRIPTIONS = {}


class Node:
    def __init__(self, name):
        self.name, self._timers = name, []

    def declare_parameter(self, name, value):
        PARAMETERS.setdefault(name, value)

    def get_parameter(self, name):
        return SimpleNamespace(value=PARAMETERS[name])

    def create_publisher(self, kind, topic, qos):
        return SimpleNamespace(publish=lambda message: rclpy.published.append((topic, message)))

    def create_subscription(self, kind, topic, callback, qos):
        SUBSCRIPTIONS.setdefault(topic, []).append(callback)
        return topic, callback

    def destroy_subscription(self, subscription):
        SUBSCRIPTIONS[subscription[0]].remove(subscription[1])

    def create_timer(self, seconds, callback):
        def tick():
            while not rclpy._ended.wait(seconds / 10):
                callback()

        threading.Thread(target=tick, daemon=True).start()

    def get_clock(self):
        now = SimpleNamespace(to_msg=lambda: SimpleNamespace(sec=int(time.time()), nanosec=0))
        return SimpleNamespace(now=lambda: now)

    def get_logger(self):
        return SimpleNamespace(error=lambda text: rclpy.published.append(("log", text)))
