"""Routing of mixtures of experts: where tokens go, and their results on the way back."""
