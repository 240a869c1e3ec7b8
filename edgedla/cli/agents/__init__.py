"""edgedla for coding agents: its questions as tools of the Model Context Protocol."""
