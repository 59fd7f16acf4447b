"""Boxes that detectors propose, and which of them stay."""
