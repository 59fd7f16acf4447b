"""Sweeps: one question put to many shapes, dtypes, attributes and products, on many processes."""
