"""Dtypes and optimizers by the words that sources use for them."""

from __future__ import annotations

from typing import Final

from zerosim.validation.cells import Default, short
from zerosim.validation.rows import StepRow

_DTYPES: Final = {
    "bf16": "bfloat16",
    "bfloat16": "bfloat16",
    "fp16": "float16",
    "float16": "float16",
    "tf32": "float32",
    "fp32": "float32",
    "float32": "float32",
}
_ADAMS: Final = ("adam", "adamw", "decoupled_adamw", "adamw (fused)", "adamw (hybrid zero-1)")


def compute_dtype(row: StepRow) -> str:
    """Name, in torch, of the dtype that matrix products run in. Raises MeasurementError."""
    first = row.precision.replace("(", " ").replace(",", " ").split()[0].lower()
    if first not in _DTYPES:
        raise row.refused(
            f"precision is '{short(row.precision)}': known are {', '.join(_DTYPES)}; leave the row out"
        )
    return _DTYPES[first]


def mixed(row: StepRow, storage: str) -> tuple[dict[str, object], list[Default]]:
    """Numerics of a run that stores parameters in `storage` and sends as the row says.

    What it does not say travels in the dtype of computing.
    """
    dtype = compute_dtype(row)
    sent: list[str] = []
    defaults: list[Default] = []
    for column, stated in zip(("ag_dtype", "rs_dtype"), row.wire, strict=True):
        if stated is None:
            defaults.append(Default(column, dtype, "travels as it computes"))
            sent.append(dtype)
        elif stated.lower() in _DTYPES:
            sent.append(_DTYPES[stated.lower()])
        else:
            raise row.raw.bad(column, f"known are {', '.join(_DTYPES)}")
    gathered, reduced = sent
    numerics: dict[str, object] = {
        "dtype": gathered,
        "grad_dtype": gathered,
        "reduce_dtype": reduced,
        "storage_dtype": storage,
    }
    return numerics, defaults


def optimizer(row: StepRow) -> tuple[str, list[Default]]:
    """The optimizer; what has other arithmetic than Adam, but as many states, counts as it."""
    stated = (row.raw.text("optimizer") or "").lower()
    if stated in _ADAMS:
        return "adamw", []
    if stated in ("sgd", "momentum"):
        return stated, []
    why = "not stated" if not stated else f"'{stated}' has as many states, other arithmetic"
    return "adamw", [Default("optimizer", "adamw", why)]
