"""Attention: softmax(q @ k.T) @ v without the matrix in between in memory, and its gradient."""
