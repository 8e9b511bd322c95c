"""Measured runs beside simulated ones: rows read, simulated, scored, and constants fitted on them."""

from zerosim.validation.board import Scoreboard, scoreboard
from zerosim.validation.rows import StepRow, read_steps

__all__ = ["Scoreboard", "StepRow", "read_steps", "scoreboard"]
