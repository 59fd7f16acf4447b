"""Copies between layouts: what makes tensors contiguous, spreads them, writes strided outputs."""
