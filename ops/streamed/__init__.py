"""Operators whose kernels pass every tensor through UB once, their functions written in NumPy."""
