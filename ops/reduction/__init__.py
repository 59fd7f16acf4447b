"""Sums along axes."""

PROVIDES = {"ReduceSum": "kernel:ReduceSum"}
ALIASES: dict[str, str] = {}
