"""Two models with one frame in flight each: how long each waits for the other, as bounds and as a search."""
