"""Byte conventions: what a parameter, its gradient and its optimizer states take, each with its source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from zerosim.numerics import Numerics
from zerosim.registry import Registry

Fields = tuple[tuple[str, str | bool], ...]


@dataclass(frozen=True, slots=True)
class Convention:
    """Bytes a parameter that last through a step. Copies that come and go are in `note`.

    `offers`: the ZeRO stages that the system it is named after has; `numerics`: the fields of a
    scenario's `[numerics]` that it stands for.
    """

    name: str
    parameters: int
    gradients: int
    optimizer: int
    says: str
    source: str
    numerics: Fields
    offers: tuple[int, ...] = (0, 1, 2, 3)
    note: str = ""

    @property
    def bytes_per_parameter(self) -> int:
        """All states of one parameter, unsharded."""
        return self.parameters + self.gradients + self.optimizer

    @property
    def line(self) -> str:
        """`paper: 16-bit Adam, 2 + 2 + 12 = 16 B a parameter`, as shown beside memory figures."""
        parts = f"{self.parameters} + {self.gradients} + {self.optimizer}"
        return f"{self.name}: {self.says}, {parts} = {self.bytes_per_parameter} B a parameter"


_EVERY: Final = (
    Convention(
        "paper",
        2,
        2,
        12,
        says="16-bit Adam",
        source="arXiv 1910.02054 §3.1",
        numerics=(("dtype", "float16"), ("grad_dtype", "float16"), ("optimizer", "adam")),
    ),
    Convention(
        "deepspeed-fp16",
        2,
        2,
        12,
        says="float16 Adam",
        source="DeepSpeed runtime/zero/stage_1_and_2.py, stage3.py",
        numerics=(("dtype", "float16"), ("grad_dtype", "float16"), ("optimizer", "adam")),
        note="the step adds 4 B for each parameter a rank owns: gradients in float32",
    ),
    Convention(
        "deepspeed-bf16",
        2,
        4,
        12,
        says="bfloat16 Adam, gradients added up in float32",
        source="DeepSpeed runtime/bf16_optimizer.py (fp32_groups_gradients_flat is whole)",
        numerics=(("dtype", "bfloat16"), ("grad_dtype", "float32"), ("optimizer", "adam")),
        offers=(0, 1),
        note="of ZeRO with grad_accum_dtype unset, bfloat16 takes what deepspeed-fp16 does",
    ),
    Convention(
        "fsdp2-mixed",
        4,
        4,
        8,
        says="float32 shards, gathered in bfloat16, reduced in float32, Adam",
        source="torch/distributed/fsdp/_fully_shard/_fsdp_param.py, MixedPrecisionPolicy",
        numerics=(
            ("dtype", "bfloat16"),
            ("grad_dtype", "bfloat16"),
            ("reduce_dtype", "float32"),
            ("storage_dtype", "float32"),
            ("optimizer", "adam"),
        ),
        offers=(2, 3),
        note="each gathered unit adds 2 B for each of its parameters, all of them at stage 2",
    ),
    Convention(
        "megatron",
        2,
        4,
        12,
        says="bfloat16 Adam, gradients added up in float32",
        source="Megatron-LM theoretical_memory_usage.py: 18, or 6 + 12/N",
        numerics=(("dtype", "bfloat16"), ("grad_dtype", "float32"), ("optimizer", "adam")),
        offers=(0, 1),
        note="the distributed optimizer is stage 1; its gradients stay whole",
    ),
    Convention(
        "adam-8bit",
        2,
        2,
        6,
        says="bfloat16 with 8-bit Adam and a float32 master copy",
        source="arXiv 2110.02861 §2 (block-wise 8-bit states)",
        numerics=(("dtype", "bfloat16"), ("grad_dtype", "bfloat16"), ("optimizer", "adam8bit")),
        note="the scales of blocks of 256 add 1.6 % to the 2 B of moments",
    ),
    Convention(
        "adam-bf16",
        2,
        2,
        4,
        says="bfloat16 Adam without a master copy",
        source="torch.optim.Adam on bfloat16 parameters, as FSDP shards them without storage_dtype",
        numerics=(
            ("dtype", "bfloat16"),
            ("grad_dtype", "bfloat16"),
            ("optimizer", "adam"),
            ("master", False),
        ),
    ),
    Convention(
        "adam-fp32",
        4,
        4,
        8,
        says="float32 Adam",
        source="torch.optim.Adam (exp_avg, exp_avg_sq)",
        numerics=(("dtype", "float32"), ("grad_dtype", "float32"), ("optimizer", "adam")),
    ),
    Convention(
        "momentum",
        2,
        2,
        8,
        says="16-bit SGD with momentum and a float32 master copy",
        source="torch.optim.SGD (momentum_buffer)",
        numerics=(("dtype", "bfloat16"), ("grad_dtype", "bfloat16"), ("optimizer", "momentum")),
    ),
    Convention(
        "sgd",
        2,
        2,
        4,
        says="16-bit SGD with a float32 master copy",
        source="torch.optim.SGD (no state)",
        numerics=(("dtype", "bfloat16"), ("grad_dtype", "bfloat16"), ("optimizer", "sgd")),
    ),
)

CONVENTIONS: Final = Registry("byte convention", {c.name: c for c in _EVERY})


def numerics_of(convention: Convention) -> Numerics:
    """The dtypes and the optimizer that a convention stands for."""
    fields: dict[str, Any] = dict(convention.numerics)
    return Numerics(**fields)


def convention_of(numerics: Numerics, named: str | None = None) -> Convention:
    """The convention with the bytes of `numerics`, the one `named` if it has them, else the first.

    One called `own` if none has them.
    """
    alike = [known for known in _EVERY if _bytes(numerics_of(known)) == _bytes(numerics)]
    if alike:
        return next((known for known in alike if known.name == named), alike[0])
    says = f"{numerics.dtype} with {numerics.optimizer}, gradients kept in {numerics.reduce_dtype}"
    if numerics.storage_dtype != numerics.dtype:
        says = f"stored in {numerics.storage_dtype}, {says}"
    return Convention(
        "own",
        numerics.storage_bytes,
        numerics.reduce_bytes,
        numerics.optimizer_bytes,
        says=says,
        source="the scenario's [numerics]",
        numerics=(),
    )


def _bytes(numerics: Numerics) -> tuple[int, ...]:
    return (
        numerics.param_bytes,
        numerics.storage_bytes,
        numerics.grad_bytes,
        numerics.reduce_bytes,
        numerics.optimizer_bytes,
        numerics.n_moments,
    )
