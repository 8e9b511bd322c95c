"""ZeRO-1, 2 and 3 for any nn.Module, small enough to read."""

from zerosim_runtime.optimizer import Settings
from zerosim_runtime.zero.options import Options
from zerosim_runtime.zero.trainer import Stepped, Trainer, shard

__all__ = ["Options", "Settings", "Stepped", "Trainer", "shard"]
