"""Operators on lists of tensors."""
