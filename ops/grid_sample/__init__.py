"""Images sampled at places that a grid tells."""
