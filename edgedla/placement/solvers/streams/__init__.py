"""Throughput: partial placements side by side, states, and the bounds that make most of them needless."""
