"""Which decoder a row trained: the one whose parameters are as many as the row says."""

from __future__ import annotations

from typing import Any, Final

from zerosim.validation.rows import Sizes, StepRow

_NEAR: Final = 0.01
"""Biases, norms and padding of a vocabulary move the count less than this."""


def family(row: StepRow) -> dict[str, Any]:
    """`model` and `tied` of the workload. Raises MeasurementError if no decoder fits within 1 %.

    Learned positions are as many as the sequence is long, which is how every published GPT of the
    table counts its parameters.
    """
    counted = counts(row.sizes)
    (model, tied), params = min(counted.items(), key=lambda item: abs(item[1] - row.sizes.params))
    if abs(params / row.sizes.params - 1) > _NEAR:
        raise row.refused(
            f"params is {row.sizes.params:.6g}, but a decoder of its sizes has {params:.6g}: "
            "mend its sizes, or leave the row out"
        )
    return {"model": model, "tied": tied}


def counts(sizes: Sizes) -> dict[tuple[str, bool], int]:
    """Parameters of a GPT and of a Llama of these sizes, with tied and with untied embeddings."""
    h, layers, table = sizes.hidden, sizes.layers, sizes.vocab * sizes.hidden
    qkv = h + 2 * (h // sizes.heads) * sizes.kv_heads
    gpt = h * qkv + qkv + h * h + h + 2 * h * sizes.ffn + sizes.ffn + h + 4 * h
    llama = h * qkv + h * h + 3 * h * sizes.ffn + 2 * h
    positions = sizes.seq * h
    return {
        ("gpt", True): table + positions + 2 * h + layers * gpt,
        ("gpt", False): 2 * table + positions + 2 * h + layers * gpt,
        ("llama", False): 2 * table + h + layers * llama,
        ("llama", True): table + h + layers * llama,
    }
