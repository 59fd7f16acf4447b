"""Triton kernels: compiled by triton-ascend's front half, played on the simulated chip."""

from npusim.triton.estimating import estimate

__all__ = ["estimate"]
