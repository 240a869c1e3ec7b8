"""The makespan of two models by how their holds of the GPU alternate, told apart one after the other from the start."""
