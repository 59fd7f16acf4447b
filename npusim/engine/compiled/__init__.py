"""The compiled player: the same machine as `engine/player.py`, some thousand times faster.

It is a small library in C without any part of Python in it, built with the package where there is
a compiler; without it everything works, slower.
"""
