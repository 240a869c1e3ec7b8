"""The makespan of two models by labels: both models in the order in which they run, and how early both can be somewhere."""
