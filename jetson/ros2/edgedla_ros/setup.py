"""Installed by colcon: `colcon build --packages-select edgedla_ros`."""

from __future__ import annotations

from setuptools import setup

setup(
    name="edgedla_ros",
    version="0.2.0",
    packages=["edgedla_ros"],
    data_files=[
        ("share/ament_index/resource_index/packages", ["resource/edgedla_ros"]),
        ("share/edgedla_ros", ["package.xml"]),
        ("share/edgedla_ros/launch", ["launch/edgedla.launch.py"]),
    ],
    install_requires=["setuptools", "edgedla"],
    license="Apache-2.0",
    entry_points={"console_scripts": ["node = edgedla_ros.node:main"]},
)
