"""Interfaces of elementwise operators with a number in the place of a tensor, and in place."""
