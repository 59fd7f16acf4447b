"""Reports of capacity plans: one page for every medium, its figures, and JSON."""
