"""An edgedla pipeline as a ROS 2 node."""
