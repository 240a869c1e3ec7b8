"""The node: runs a pipeline file; publishes detections of each source and model and diagnostics.

Topics: ~/SOURCE/MODEL/detections (vision_msgs/Detection2DArray), /diagnostics
(diagnostic_msgs/DiagnosticArray, once a second). The parameter `pipeline` names the file.
"""

from __future__ import annotations

import sys
import threading
from typing import Any, Dict, List, Tuple

import rclpy
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from vision_msgs.msg import Detection2D, Detection2DArray, ObjectHypothesisWithPose

import edgedla
from edgedla_ros import topics

DIAGNOSTICS_S = 1.0
#: A source without a frame for so long is in error.
STALE_S = 5.0


class EdgedlaNode(Node):
    def __init__(self) -> None:
        super().__init__("edgedla")
        self.declare_parameter("pipeline", "pipeline.yaml")
        self._detections: Dict[str, Any] = {}
        self._diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", 10)
        self.pipeline: Any = None

    def publish(self, result: Any) -> None:
        """A result as vision_msgs/Detection2DArray, with the stamp of its frame's capture."""
        name = f"~/{result.source or 'camera'}/{result.model or 'model'}/detections"
        publisher = self._detections.get(name)
        if publisher is None:
            publisher = self._detections[name] = self.create_publisher(Detection2DArray, name, qos_profile_sensor_data)
        publisher.publish(detections_of(result))

    def tell(self) -> None:
        """Publishes the state of every source and runner."""
        if self.pipeline is None:
            return
        message = DiagnosticArray()
        message.header.stamp = self.get_clock().now().to_msg()
        message.status = [status_of(*row) for row in rows_of(self.pipeline.summary())]
        self._diagnostics.publish(message)


def detections_of(result: Any) -> Detection2DArray:
    message = Detection2DArray()
    message.header.frame_id = result.source or "camera"
    # 1e9 times the whole time would not fit into a float's 53 bits.
    seconds = int(result.frame.time_s)
    message.header.stamp.sec = seconds
    message.header.stamp.nanosec = min(round((result.frame.time_s - seconds) * 1e9), 10**9 - 1)
    for found in result.results:
        if not hasattr(found, "box_xyxy"):
            continue
        x1, y1, x2, y2 = map(float, found.box_xyxy)
        one = Detection2D()
        one.header = message.header
        one.bbox.center.position.x, one.bbox.center.position.y = (x1 + x2) / 2, (y1 + y2) / 2
        one.bbox.size_x, one.bbox.size_y = x2 - x1, y2 - y1
        one.id = "" if found.track is None else str(found.track)
        hypothesis = ObjectHypothesisWithPose()
        hypothesis.hypothesis.class_id, hypothesis.hypothesis.score = found.label or str(found.cls), float(found.score)
        one.results.append(hypothesis)
        message.detections.append(one)
    return message


def rows_of(summary: Dict[str, Any]) -> List[Tuple[str, bool, str, Dict[str, Any]]]:
    """(name, whether it works, message, values) of each source, runner and output."""
    rows: List[Tuple[str, bool, str, Dict[str, Any]]] = []
    for source in summary["sources"]:
        age = source["last_frame_age_s"]
        works = source["state"] == "ended" or (source["state"] == "open" and age is not None and age <= STALE_S)
        counts = {key: source[key] for key in ("captured", "dropped", "reconnects", "stalls", "outages")}
        rows.append((f"source {source['name'] or 'camera'}", works, source["why"] or source["state"], counts))
    for runner in summary["runners"]:
        times = {key: runner["inference"][key] for key in ("count", "p50_ms", "p99_ms")}
        rows.append((f"runner {runner['runner']}", runner["in_use"], "in use" if runner["in_use"] else "taken out", times))
    for output in summary["outputs"]:
        if "failed" in output:
            rows.append(
                (f"output {output['output']}", not output["failed"], output["failed"] or "written", {"lost": output["lost"]})
            )
    return rows


def status_of(name: str, works: bool, message: str, values: Dict[str, Any]) -> DiagnosticStatus:
    status = DiagnosticStatus()
    status.level = DiagnosticStatus.OK if works else DiagnosticStatus.ERROR
    status.name, status.message, status.hardware_id = f"edgedla: {name}", message, "edgedla"
    status.values = [KeyValue(key=key, value=str(value)) for key, value in values.items()]
    return status


def _stop(pipeline: Any) -> None:
    topics.use(None)
    pipeline.stop()


def main() -> int:
    rclpy.init()
    node = EdgedlaNode()
    topics.use(node)
    # Subscriptions are served while the pipeline opens: it waits for the first image.
    spinning = threading.Thread(target=rclpy.spin, args=(node,), daemon=True)
    spinning.start()
    try:
        with edgedla.open_pipeline(node.get_parameter("pipeline").value, on_result=node.publish) as pipeline:
            node.pipeline = pipeline
            node.create_timer(DIAGNOSTICS_S, node.tell)
            rclpy.get_default_context().on_shutdown(lambda: _stop(pipeline))
            pipeline.run()
    except edgedla.EdgedlaError as e:
        node.get_logger().error(str(e))
        return e.exit_code
    finally:
        topics.use(None)
        rclpy.try_shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
