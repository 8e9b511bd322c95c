"""What autograd keeps of the models that real ranks run, tensor by tensor, as a ledger can book it.

# Note [What a ledger sees]
A ledger books what somebody holds from one op to the next: states, gradients, buckets, gathered
parameters, what autograd keeps for the backward. What lives only while an op runs nobody sees from
outside, so it is left out. What is kept is counted of the modules as `zerosim_runtime.model` writes them
under eager torch, each storage once; h is the hidden width, k that of keys, f of the feed-forward.
GPT, a token: what both norms get and give (4h) and their means and deviations (4), queries, keys and
values in one storage (h + 2k), what attention gives (h) and its log-sum-exp (one a head, float32 at
least), what GELU gets and gives (2f).
Llama: a norm keeps what it gets, also divided, in float32 at least, one number beside them, and what it
gives; rotated queries and keys lie apart, and values in the storage of all three, or, where heads share
them, repeated; what attention gives is copied once (2h); SiLU, up, gate and their product are 4f; the
angles of the rotation are there four times.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from zerosim.models.sizes import Sizes
from zerosim.workload import Layer, Workload

LOSS: Final = "kept"
_FLOAT32: Final = 4


def as_booked(workload: Workload, sizes: Sizes) -> Workload:
    """A transformer whose layers keep what a ledger sees, and nothing in passing."""
    wide = max(1, _FLOAT32 // sizes.width)
    block = _llama(sizes, wide) if sizes.llama else _gpt(sizes, wide)
    norm = 2 * wide * sizes.hidden + wide if sizes.llama else sizes.hidden + 2
    embedding, *blocks, head = workload.layers
    layers = (
        _keeping(embedding, 0),
        *(_keeping(layer, block) for layer in blocks),
        replace(_keeping(head, sizes.tokens * (norm + sizes.hidden)), loss=LOSS),
    )
    return replace(workload, layers=layers)


def uniform_as_booked(workload: Workload) -> Workload:
    """The uniform model; its loss, a mean squared error, keeps what the last layer gives."""
    *others, last = workload.layers
    return replace(workload, layers=(*others, replace(last, activations=2 * last.activations)))


def _keeping(layer: Layer, activations: int) -> Layer:
    return replace(
        layer,
        activations=activations,
        forward_workspace=0,
        recompute_workspace=0,
        backward_workspace=0,
    )


def _gpt(sizes: Sizes, wide: int) -> int:
    attended = 2 * sizes.hidden + 2 * sizes.kv + sizes.heads * wide
    return sizes.tokens * (4 * sizes.hidden + 4 + attended + 2 * sizes.ffn)


def _llama(sizes: Sizes, wide: int) -> int:
    h = sizes.hidden
    norm = 2 * wide * h + wide + h
    values = h + 2 * sizes.kv if sizes.kv_heads == sizes.heads else h
    attended = 2 * h + values + sizes.heads * wide + 2 * h
    angles = 4 * sizes.seq * (h // sizes.heads // 2)
    return sizes.tokens * (2 * norm + attended + 4 * sizes.ffn) + angles
