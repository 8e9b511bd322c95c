"""zerosim: simulate, run for real, and explore ZeRO data parallelism."""

__version__ = "0.1.0"
