"""ros2 launch edgedla_ros edgedla.launch.py pipeline:=/path/pipeline.yaml"""

from __future__ import annotations

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node


def generate_launch_description():
    return LaunchDescription(
        [
            DeclareLaunchArgument("pipeline", description="The pipeline file."),
            DeclareLaunchArgument("name", default_value="edgedla"),
            Node(
                package="edgedla_ros",
                executable="node",
                name=LaunchConfiguration("name"),
                parameters=[{"pipeline": LaunchConfiguration("pipeline")}],
                output="screen",
                # A lost device ends the process: a new one gets a new CUDA context.
                respawn=True,
                respawn_delay=5.0,
            ),
        ]
    )
