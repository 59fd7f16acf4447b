"""Measured kernels against simulated ones.

Reading tables, replaying rows, statistics, fitting what nobody publishes.
"""
