"""Proofs that rewrites compute the same: of each site by itself, and of the whole network."""
