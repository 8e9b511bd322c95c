"""Measured runs beside simulated ones: what was measured, what the simulator says, and how far apart."""
