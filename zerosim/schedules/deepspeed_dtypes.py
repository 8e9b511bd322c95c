"""DeepSpeed's dtypes at every ZeRO stage: its names of them, and which it trains, reduces and adds up in."""

from __future__ import annotations

from typing import Final

from zerosim.errors import ScenarioError
from zerosim.numerics import Numerics

DTYPES: Final = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
"""DeepSpeed's names of the dtypes that it trains and communicates in, and torch's."""


def check_dtypes(communication_data_type: str | None, grad_accum_dtype: str | None) -> None:
    """Refuse names that a ds_config does not know. Raises ScenarioError."""
    given = {
        "communication_data_type": communication_data_type,
        "grad_accum_dtype": grad_accum_dtype,
    }
    for name, dtype in given.items():
        if dtype not in (None, *DTYPES):
            raise ScenarioError(
                f"schedule.{name} is '{dtype}': DeepSpeed takes {', '.join(DTYPES)}"
            )


def communication_dtype(communication_data_type: str | None, numerics: Numerics) -> str:
    """The dtype in which gradients are reduced, by torch's name.

    DeepSpeed's own default is the dtype of the run, whatever gradients are accumulated in.
    """
    if communication_data_type is not None:
        return DTYPES[communication_data_type]
    own = numerics.reduce_dtype != numerics.grad_dtype
    return numerics.reduce_dtype if own else numerics.dtype


def check_numerics(stage: int, numerics: Numerics) -> None:
    """Refuse dtypes that DeepSpeed does not train in, or in another optimizer than this one."""
    if numerics.dtype not in DTYPES.values():
        raise ScenarioError(
            f"numerics.dtype is '{numerics.dtype}': DeepSpeed trains in "
            f"{', '.join(DTYPES.values())}"
        )
    if numerics.storage_dtype != numerics.dtype:
        raise ScenarioError(
            f"numerics.storage_dtype is '{numerics.storage_dtype}': DeepSpeed stores parameters as "
            f"they compute; leave it out"
        )
    if numerics.grad_dtype not in (numerics.dtype, "float32"):
        raise ScenarioError(
            f"numerics.grad_dtype is '{numerics.grad_dtype}': DeepSpeed accumulates gradients of "
            f"{numerics.dtype} in {' or '.join(dict.fromkeys((numerics.dtype, 'float32')))}"
        )
    if stage == 1 and numerics.grad_dtype != numerics.dtype:
        raise ScenarioError(
            f"numerics.grad_dtype is '{numerics.grad_dtype}': deepspeed-1 would run DeepSpeed's "
            f"BF16_Optimizer, which is not modelled; give {numerics.dtype}, or take deepspeed-2"
        )
