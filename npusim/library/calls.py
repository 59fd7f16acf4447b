"""What a call of a vector instruction on a number of elements costs the scalar unit."""

CALL_OPERATIONS = 25  # mask and its mode there and back, addresses
