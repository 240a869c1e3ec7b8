"""Image topics as sources of a pipeline: `uri: edgedla_ros.topics:front__image_raw` is the topic /front/image_raw.

Two underscores stand for a slash. A frame keeps the stamp of its message, so results name the time of capture.
"""

from __future__ import annotations

import contextlib
import queue
import time
from typing import Any, Callable, Iterator, Optional, Tuple

import numpy as np

#: Seconds without an image after which the source counts as broken, and is opened again.
SILENT_S = 5.0
#: How often a source without images looks whether the node ended.
LOOK_S = 0.25
#: Channels of each encoding that is taken (sensor_msgs/image_encodings.hpp), and their order in BGR.
ENCODINGS = {
    "bgr8": (3, (0, 1, 2)),
    "rgb8": (3, (2, 1, 0)),
    "bgra8": (4, (0, 1, 2)),
    "rgba8": (4, (2, 1, 0)),
    "mono8": (1, (0, 0, 0)),
}

_node: Any = None


def use(node: Any) -> None:
    """The node that subscribes; `node.py` says so before the pipeline opens."""
    global _node
    _node = node


def __getattr__(name: str) -> Callable[[], Iterator[Tuple[np.ndarray, float]]]:
    if name.startswith("_"):
        raise AttributeError(name)
    return frames_of("/" + name.replace("__", "/"))


def frames_of(topic: str) -> Callable[[], Iterator[Tuple[np.ndarray, float]]]:
    """A function that yields (BGR image, seconds since 1970) of the topic, the newest first."""

    def frames() -> Iterator[Tuple[np.ndarray, float]]:
        from rclpy.qos import qos_profile_sensor_data
        from sensor_msgs.msg import Image

        newest: queue.Queue = queue.Queue(1)

        def take(message: Any) -> None:
            with contextlib.suppress(queue.Empty):
                newest.get_nowait()
            newest.put(message)

        node, last_s = _node, time.monotonic()
        if node is None:
            raise RuntimeError("no node subscribes: start the pipeline with `ros2 run edgedla_ros node`")
        subscription = node.create_subscription(Image, topic, take, qos_profile_sensor_data)
        try:
            while _node is node:
                try:
                    message = newest.get(timeout=LOOK_S)
                except queue.Empty:
                    if time.monotonic() - last_s > SILENT_S:
                        raise RuntimeError(f"no image on {topic} for {SILENT_S:g} s") from None
                    continue
                last_s = time.monotonic()
                yield image_of(message), stamp_of(message)
        finally:
            node.destroy_subscription(subscription)

    return frames


def image_of(message: Any) -> np.ndarray:
    """A sensor_msgs/Image as uint8 (h, w, 3) in BGR. Raises ValueError for an encoding that is not in ENCODINGS."""
    if message.encoding not in ENCODINGS:
        raise ValueError(f"the encoding {message.encoding}: allowed are {', '.join(ENCODINGS)}")
    channels, order = ENCODINGS[message.encoding]
    rows = np.frombuffer(message.data, np.uint8).reshape(message.height, message.step)
    pixels = rows[:, : message.width * channels].reshape(message.height, message.width, channels)
    return np.ascontiguousarray(pixels[..., order])


def stamp_of(message: Any) -> Optional[float]:
    """Seconds since 1970; None where the publisher left the stamp out."""
    stamp = message.header.stamp
    return stamp.sec + stamp.nanosec / 1e9 if stamp.sec or stamp.nanosec else None
