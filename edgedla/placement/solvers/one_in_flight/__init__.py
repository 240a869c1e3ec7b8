"""Throughput of two streams with one frame of each in flight."""
