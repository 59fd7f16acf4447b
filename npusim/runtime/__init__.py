"""Devices and streams: calls executed on a profile, their results and bands."""
