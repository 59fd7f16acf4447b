"""What a tensor compiler derives from a formula: buffers, tiles and kernels."""
