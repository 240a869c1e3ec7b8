"""The makespan of three or more models."""
