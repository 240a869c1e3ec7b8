"""Placement: finds where each layer runs at the optimum of the predicted cost, proves it, and verifies placements."""
