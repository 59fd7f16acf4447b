"""What was learned from measured kernels: the residuals that bands are made of."""
