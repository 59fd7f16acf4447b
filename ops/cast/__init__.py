"""Conversion between dtypes."""
