"""Plain values that know nothing of any chip: dtypes, formats, tensors, status codes, errors."""
