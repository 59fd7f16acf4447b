"""Sums, means, products, largest and smallest elements along axes."""
