"""Measured runs beside simulated ones: rows read, simulated, scored, and constants fitted on them.

Nothing is imported here: `zerosim simulate` asks for its error band alone.
"""
