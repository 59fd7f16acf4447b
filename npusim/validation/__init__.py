"""Measured kernels against simulated ones: reading tables, replaying rows, statistics, fitting what nobody publishes."""
