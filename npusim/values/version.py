"""The version of the package, where every room can see it."""

__version__ = "0.11.0"
