"""Pooling: windows of images folded to their largest element or their mean, and the gradients."""
