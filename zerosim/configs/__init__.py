"""Configurations people already have, as scenarios: DeepSpeed, Accelerate, torchtitan, Hugging Face."""

from zerosim.configs.imported import Imported, from_files

__all__ = ["Imported", "from_files"]
