"""Running sums along an axis."""
