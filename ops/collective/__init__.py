"""Tensors of several chips brought together, by themselves and beside a matrix product."""
