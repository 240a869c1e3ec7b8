"""The makespan of two models."""
