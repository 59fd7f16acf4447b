"""Quantisation: tensors and their scales, and fusions of both with what comes before."""
