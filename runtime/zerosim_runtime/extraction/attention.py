"""Calls of scaled_dot_product_attention, wherever they come from: counted by shapes, run as a GPU would."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from math import prod
from typing import Any, Final, Protocol

import torch
from torch.nn import functional

_ATTEND: Final[Any] = functional.scaled_dot_product_attention
_NAMES: Final = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")


class Counts(Protocol):
    """Who is told of attention."""

    in_attention: bool

    def attention(
        self, flops: int, masked_flops: int, *, backward: bool
    ) -> AbstractContextManager[None]:
        """One call, with its FLOPs in full and those that a causal mask makes needless."""
        ...


@contextmanager
def watched_attention(counts: Counts) -> Iterator[None]:
    """Tell `counts` of every call of attention.

    A mode sees calls by whoever holds the function, but none from inside torch's own functions
    (nn.MultiheadAttention); those look it up in torch.nn.functional, where ours stands meanwhile.
    """

    def attend(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - torch's own signature
        return _attended(counts, args, kwargs)

    functional.scaled_dot_product_attention = attend
    try:
        with _Mode(counts):
            yield
    finally:
        functional.scaled_dot_product_attention = _ATTEND


class _Mode(torch.overrides.TorchFunctionMode):
    """Sees functions of torch as they are called."""

    def __init__(self, counts: Counts) -> None:
        super().__init__()
        self.counts = counts

    def __torch_function__(
        self,
        func: Any,  # noqa: ANN401 - torch's own signature
        types: Any,  # noqa: ANN401 - same
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 - same
        """Call `func`; attention is counted, unless it is already."""
        del types
        if func is _ATTEND and not self.counts.in_attention:
            return _attended(self.counts, args, kwargs or {})
        return func(*args, **(kwargs or {}))


def _attended(counts: Counts, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ANN401 - torch's own
    given = dict(zip(_NAMES, args, strict=False)) | kwargs
    # A GPU's fused kernel drops out by a seed; the CPU's would fall back to one that keeps scores.
    given["dropout_p"] = 0.0
    query, key, value = parts = [given[name] for name in _NAMES[:3]]
    # As torch counts it: every score, and its share of the values, whatever a mask leaves out.
    scores = prod(query.shape[:-1]) * key.shape[-2]
    flops = 2 * scores * (query.shape[-1] + value.shape[-1])
    masked = flops // 2 if given.get("is_causal") else 0
    with counts.attention(flops, masked, backward=any(part.requires_grad for part in parts)):
        return _ATTEND(**given)
