"""RoI align: bins of boxes filled with the mean of samples between four pixels."""
