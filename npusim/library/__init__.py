"""Blocks that several kernels are built from: matrix products."""
