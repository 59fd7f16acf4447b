"""Numbers counted, looked up in sorted ones, and multiplied up."""
