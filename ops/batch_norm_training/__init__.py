"""Batch normalisation in training and inference, forward and backward, on tensors in NC1HWC0."""
