"""The byte convention: how many bytes a parameter, a gradient and its optimizer states take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from zerosim.registry import Registry
from zerosim.units import dtype_bytes

_MOMENTS: Final = Registry(
    "optimizer", {"adam": 2, "adamw": 2, "adam8bit": 2, "sgd": 0, "momentum": 1}
)
_QUANTIZED: Final = ("adam8bit",)
"""Optimizers that keep a byte a moment, whatever the dtype (arXiv 2110.02861)."""
_AT_ONCE: Final = ("adam", "adamw")
"""Optimizers whose foreach form holds the square roots of all second moments at once."""
_FOREACH: Final = {"sgd": 3, "momentum": 8, "adam": 18, "adamw": 20}
"""Numbers a parameter that torch 2.13's foreach optimizers read and write (torch.optim._multi_tensor_*).

Adam: lerp_ 3, mul_ 2, addcmul_ 3, sqrt 2, div_ 2, add_ 2, addcdiv_ 4; adamw: mul_ 2 before. Momentum: mul_
2, add_ 3, add_ 3. SGD: add_ 3.
"""


@dataclass(frozen=True, slots=True)
class Numerics:
    """Dtypes by torch's names. Parameters stored in 16 bits get a float32 master in the optimizer.

    `dtype`: parameters as they compute and travel; `grad_dtype`: gradients as the backward makes
    them; `reduce_dtype`: as they are reduced and kept (empty: grad_dtype); `storage_dtype`: as
    parameters are stored (empty: dtype); `master`: whether there is that float32 copy, which torch's
    own optimizers do not make: without it the moments have the storage's dtype; `foreach`: whether
    an update works on all parameters at once, as torch's do on GPUs unless fused; `clipping`: whether
    gradients are clipped by their norm before it (engines that always do, do anyway).

    FSDP2's mixed precision stores float32, computes in bfloat16. bfloat16 or float16 with Adam is the
    ZeRO paper's 2 + 2 + 12 bytes (arXiv 1910.02054 §3.1), float32 with Adam 4 + 4 + 8.
    """

    dtype: str = "bfloat16"
    grad_dtype: str = "bfloat16"
    optimizer: str = "adam"
    reduce_dtype: str = ""
    storage_dtype: str = ""
    master: bool = True
    foreach: bool = False
    clipping: bool = False

    def __post_init__(self) -> None:
        """Fill in what is empty; refuse unknown names."""
        object.__setattr__(self, "reduce_dtype", self.reduce_dtype or self.grad_dtype)
        object.__setattr__(self, "storage_dtype", self.storage_dtype or self.dtype)
        for dtype in (self.dtype, self.grad_dtype, self.reduce_dtype, self.storage_dtype):
            dtype_bytes(dtype)
        _MOMENTS[self.optimizer]

    @property
    def param_bytes(self) -> int:
        """Bytes of one parameter as it computes and travels."""
        return dtype_bytes(self.dtype)

    @property
    def grad_bytes(self) -> int:
        """Bytes of one gradient as the backward makes it."""
        return dtype_bytes(self.grad_dtype)

    @property
    def reduce_bytes(self) -> int:
        """Bytes of one gradient as it is reduced."""
        return dtype_bytes(self.reduce_dtype)

    @property
    def storage_bytes(self) -> int:
        """Bytes of one parameter as it is stored between steps."""
        return dtype_bytes(self.storage_dtype)

    @property
    def optimizer_bytes(self) -> int:
        """K: bytes of optimizer states per parameter (master copy and moments)."""
        master = self._state if self._state > self.storage_bytes else 0
        moment = 1 if self.optimizer in _QUANTIZED else self._state
        return master + moment * self.n_moments

    @property
    def update_workspace(self) -> int:
        """Bytes per parameter that live only in an update, "~ sizeof(params)" (docs of torch.optim)."""
        return self._state if self.foreach and self.optimizer in _AT_ONCE else 0

    @property
    def _state(self) -> int:
        """Bytes of one number as the update works with it."""
        return max(4, self.storage_bytes) if self.master else self.storage_bytes

    @property
    def n_moments(self) -> int:
        """How many numbers the optimizer keeps of each parameter beside its copy."""
        return _MOMENTS[self.optimizer]

    @property
    def update_bytes(self) -> int:
        """Bytes that one parameter's optimizer step reads and writes (gradient, states, parameter).

        Fused it is one kernel. With `foreach` it is several, each over all parameters.
        """
        if self.foreach and self.optimizer in _FOREACH:
            copied = self.storage_bytes if self._state > self.storage_bytes else 0
            return _FOREACH[self.optimizer] * self._state + copied
        return self.reduce_bytes + 2 * self.optimizer_bytes + self.storage_bytes
