"""The makespan of two models by label setting: moments of both models, side by side."""
