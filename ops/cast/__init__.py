"""Conversion between dtypes."""

PROVIDES = {"Cast": "kernel:Cast"}
ALIASES: dict[str, str] = {}
