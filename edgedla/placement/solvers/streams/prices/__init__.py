"""Bounds by prices: weighted means of the engines' loads, by a relaxation that splits into trees."""
