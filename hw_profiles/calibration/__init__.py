"""What was learned from measured kernels: fitted constants and the residuals that bands are made of."""
