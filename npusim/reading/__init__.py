"""The gate: whatever comes from outside is read here, within limits and with words for mistakes.

Nothing else in the package opens a file to read it, or knows YAML, JSON, CSV, gzip or NumPy's
formats (tests/reading/test_reading.py). What is wrong with a file is a FileError.
"""
