"""Formulas over rows: elementwise steps, folds of every row, and the kernels that play them."""
