"""https://github.com/ros-perception/vision_msgs, branch ros2: Detection2DArray, Detection2D, BoundingBox2D, ObjectHypothesis."""

from __future__ import annotations

from types import SimpleNamespace


def header():
    return SimpleNamespace(stamp=SimpleNamespace(sec=0, nanosec=0), frame_id="")


class Detection2DArray:
    def __init__(self):
        self.header, self.detections = header(), []


class Detection2D:
    __slots__ = ("header", "results", "bbox", "id")

    def __init__(self):
        self.header, self.results, self.id = header(), [], ""
        position = SimpleNamespace(x=0.0, y=0.0)
        self.bbox = SimpleNamespace(center=SimpleNamespace(position=position, theta=0.0), size_x=0.0, size_y=0.0)


class ObjectHypothesisWithPose:
    __slots__ = ("hypothesis", "pose")

    def __init__(self):
        self.hypothesis, self.pose = SimpleNamespace(class_id="", score=0.0), None
