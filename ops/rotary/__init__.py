"""Rotary position embeddings: pairs of a row turned by angles, and their gradient."""
