"""Softmax and its logarithm along an axis, and their gradients."""
