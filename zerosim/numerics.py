"""The byte convention: how many bytes a parameter, a gradient and its optimizer states take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from zerosim.registry import Registry
from zerosim.units import dtype_bytes

_MOMENTS: Final = Registry("optimizer", {"adam": 2, "adamw": 2, "sgd": 0, "momentum": 1})


@dataclass(frozen=True, slots=True)
class Numerics:
    """Dtypes by torch's names. 16-bit parameters get a float32 master copy in the optimizer.

    bfloat16 or float16 with Adam is the ZeRO paper's 2 + 2 + 12 bytes (arXiv 1910.02054 §3.1),
    float32 with Adam 4 + 4 + 8.
    """

    dtype: str = "bfloat16"
    grad_dtype: str = "bfloat16"
    optimizer: str = "adam"

    def __post_init__(self) -> None:
        """Refuse unknown names."""
        dtype_bytes(self.dtype)
        dtype_bytes(self.grad_dtype)
        _MOMENTS[self.optimizer]

    @property
    def param_bytes(self) -> int:
        """Bytes of one parameter as it computes and travels."""
        return dtype_bytes(self.dtype)

    @property
    def grad_bytes(self) -> int:
        """Bytes of one gradient as it is kept and reduced."""
        return dtype_bytes(self.grad_dtype)

    @property
    def optimizer_bytes(self) -> int:
        """K: bytes of optimizer states per parameter (master copy and moments)."""
        state = max(4, self.param_bytes)
        master = state if self.param_bytes < 4 else 0  # noqa: PLR2004 - bytes of a float32
        return master + state * _MOMENTS[self.optimizer]

    @property
    def update_bytes(self) -> int:
        """Bytes that one parameter's optimizer step reads and writes (gradient, states, parameter)."""
        return self.grad_bytes + 2 * self.optimizer_bytes + self.param_bytes
