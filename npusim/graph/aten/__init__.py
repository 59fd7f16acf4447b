"""Programs of torch.export in aten calls: read, and turned into the aclnn calls that run them."""
