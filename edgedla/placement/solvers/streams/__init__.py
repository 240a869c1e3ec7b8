"""Throughput: a search over many partial placements at once, their states, and the bounds that prune most of them."""
