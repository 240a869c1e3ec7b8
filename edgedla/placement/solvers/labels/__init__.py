"""The makespan of two models by labels: how early both models can be at given points of their execution."""
