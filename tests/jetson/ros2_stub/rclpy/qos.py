"""As much of rclpy.qos as the node uses."""

from __future__ import annotations

qos_profile_sensor_data = "sensor data"
