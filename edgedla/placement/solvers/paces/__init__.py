"""Two models with one frame in flight: what each must wait for the other, as bounds and as a search."""
