"""Losses that are computed element by element, and their gradients."""
