"""Lower bounds of what the rest of a placement costs."""
