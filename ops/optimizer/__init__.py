"""Optimizers: one step of the training of a variable, its moments in place."""
