"""Prediction: time, energy and memory of a given assignment, without solving."""
