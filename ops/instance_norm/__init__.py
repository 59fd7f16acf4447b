"""Instance normalisation."""
