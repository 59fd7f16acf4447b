"""What holds for all tests."""

from hypothesis import HealthCheck, settings

# How fast examples are drawn says how busy the machine is, nothing about the product.
settings.register_profile("any machine", suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")
