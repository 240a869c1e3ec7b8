"""Throughput: the placement whose busiest engine has the least work per period."""
