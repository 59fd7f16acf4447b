"""Triton kernels: compiled by triton-ascend's front half, played on the simulated chip."""
