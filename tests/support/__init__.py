"""What the tests of all operators share: comparisons, golden cases, and the physics of a call."""
