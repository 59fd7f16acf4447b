"""Matrices decomposed, inverted, and their determinants."""
