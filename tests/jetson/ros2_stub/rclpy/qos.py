from __future__ import annotations

qos_profile_sensor_data = "sensor data"
