"""Root-mean-square normalisation, with the sum of two tensors in front of it, and its gradient."""
