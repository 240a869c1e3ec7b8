"""Placement: which layer runs on which device at least cost, proven, and whether a placement holds."""
