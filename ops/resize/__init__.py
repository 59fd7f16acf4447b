"""Images brought to another size: nearest pixels and their gradient, and between four pixels."""
