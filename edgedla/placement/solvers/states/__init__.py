"""The state of a partial placement: all that it means for the cost of the rest."""
