"""Random numbers: uniform, normal, masks of bits, orders."""
