"""The makespan of two models by the stays of one at the GPU: few, because each lies between two GPU segments of the other."""
