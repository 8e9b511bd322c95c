"""What lives only while a layer of a transformer runs, beside what it keeps, in elements.

# Note [What a block has at most]
Counted for modules as `zerosim_runtime.examples_models` writes them, whose extraction says the same
(tests/runtime/extraction/test_presets.py); h is the hidden width, k that of keys, f of the feed-forward.
Forward: what the feed-forward gives, and the sum with the residual: 2h a token.
Forward that keeps nothing (checkpointed): queries, keys and values, what attention gives, and the first
sum still have names while the feed-forward runs: 3h + 2k and the widths between its products, 2f of a GPT
(before and after GELU); a Llama's norm has a name, too, and SiLU, up and their product are 3f.
Backward: most is there after the last product's, when of all gradients there is that product's alone:
the gradient of the residual, h, and those of what lies before it, f of a GPT; of a Llama those of SiLU
and of up, and of their product, which is gone itself: 2f.
Compiled, a tensor is gone after its last use and the next one takes its place: no name keeps it, and the
widths between products are two at once, 2f.
"""

from __future__ import annotations

from dataclasses import dataclass

from zerosim.models.sizes import Sizes
from zerosim.workload import Parameter


@dataclass(frozen=True, slots=True)
class Workspace:
    """Of a layer: `Layer.forward_workspace`, `recompute_workspace` and `backward_workspace`."""

    forward: int = 0
    again: int = 0
    backward: int = 0


def of_block(sizes: Sizes, block: tuple[Parameter, ...]) -> Workspace:
    """See Note [What a block has at most]."""
    h, k, f = sizes.hidden, sizes.kv, sizes.ffn
    keeping = 2 * sizes.tokens * h
    between, named, before = 2 * f, 3 * h + 2 * k, f
    if sizes.compiled:
        named = 2 * h
    elif sizes.llama:
        between, named, before = 3 * f, 4 * h + 2 * k, 2 * f
    bare = sizes.tokens * (named + between)
    last = sum(p.numel for p in block if p.name.startswith("mlp.down"))
    absent = sum(p.numel for p in block) - last
    backward = sizes.tokens * (before + h) - absent
    checkpointed = sizes.checkpointing == "full"
    return Workspace(
        forward=bare if checkpointed else keeping,
        again=keeping if sizes.checkpointing != "none" else 0,
        backward=max(0, backward),
    )


def of_embedding(sizes: Sizes) -> Workspace:
    """Look-ups, which are added. How a table's second gradient is added is the engine's."""
    looked_up = sizes.tokens * sizes.hidden
    return Workspace(forward=looked_up if sizes.llama else 2 * looked_up)


def of_head(sizes: Sizes) -> Workspace:
    """The gradient of what the norm gives."""
    return Workspace(backward=sizes.tokens * sizes.hidden)
