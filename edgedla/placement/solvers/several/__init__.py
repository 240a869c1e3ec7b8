"""The makespan of two models: the segments that each model may fall into, the fronts of their times, and all pairs of them."""
