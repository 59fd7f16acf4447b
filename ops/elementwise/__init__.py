"""Elementwise arithmetic with broadcasting, comparisons, selections, copies and fills."""
