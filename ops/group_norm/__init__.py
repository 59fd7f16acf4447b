"""Group normalisation."""
