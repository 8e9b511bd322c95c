"""What the engine behind each schedule does, in a paragraph, and the page of the docs that says more."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from zerosim.schedules import SCHEDULES

_DEEPSPEED12: Final = "schedules/deepspeed-1-2.md"
_COLOSSALAI: Final = "schedules/colossalai.md"


@dataclass(frozen=True, slots=True)
class Told:
    """Who made an engine, what it does in a few sentences, and where in the docs that stands."""

    maker: str
    does: str
    page: str


TOLD: Final = {
    "zero1": Told(
        "Textbook",
        "The paper's first stage: every rank keeps all parameters and makes all gradients, "
        "reduce-scatters them in buckets, updates the slice it owns, and gathers the parameters anew.",
        "schedules.md",
    ),
    "zero2": Told(
        "Textbook",
        "As ZeRO-1, but a rank keeps of each reduced bucket only the slice it owns, so whole "
        "gradients never stand together.",
        "schedules.md",
    ),
    "zero3": Told(
        "Textbook",
        "Parameters live in shards. Each layer is gathered before its forward and before its "
        "backward and dropped after; its gradients are reduce-scattered as the backward goes.",
        "schedules.md",
    ),
    "ddp": Told(
        "PyTorch",
        "Every rank holds everything. Gradients go into buckets, which are all-reduced in order as "
        "soon as they are full, while the backward goes on. After step 1 the buckets are made anew "
        "in the order in which gradients came, so step 2 is the one to look at.",
        "schedules/ddp.md",
    ),
    "zero-redundancy": Told(
        "PyTorch",
        "DDP's step, after which each rank updates the whole parameters it owns and broadcasts them. "
        "The largest go first, each to the rank with the least so far, so some may own nothing.",
        "schedules/zero-redundancy.md",
    ),
    "fsdp1": Told(
        "PyTorch",
        "Each wrapped unit is one flat parameter of which a rank keeps 1/N. It is gathered before "
        "its forward and again before its backward, one unit ahead, and its flat gradient is "
        "reduce-scattered. Nothing is copied out: parameters are views of what was gathered.",
        "schedules/fsdp1.md",
    ),
    "fsdp2": Told(
        "PyTorch",
        "Every parameter is sharded by its rows, and a wrapped module is gathered in one collective. "
        "The last module is dropped after the forward and gathered again at once, unless "
        "reshard_after_forward says otherwise. Gradients are copied into the padded input of a "
        "reduce-scatter: that input is the bucket.",
        "schedules/fsdp2.md",
    ),
    "deepspeed-1": Told(
        "DeepSpeed",
        "Parameters lie in one flat buffer cut into N slices; a rank has the optimizer states of one. "
        "Gradients stay whole and enter the IPG buffer when the backward has ended (with "
        "overlap_comm: while it runs); it is all-reduced, not reduce-scattered.",
        _DEEPSPEED12,
    ),
    "deepspeed-2": Told(
        "DeepSpeed",
        "As stage 1, but gradients enter the IPG buffer as the backward makes them, and a rank keeps "
        "only those that touch its slice. A full buffer is all-reduced by default; the buffer is "
        "allocated whole, with the first gradient.",
        _DEEPSPEED12,
    ),
    "deepspeed-3": Told(
        "DeepSpeed",
        "Each module gathers its own parameters. Step 1 records the order in which they are used, "
        "and later steps prefetch by it, so step 1 looks different. Small parameters stay gathered, "
        "and what is used again within max_reuse_distance is not dropped: a small model is gathered "
        "once a step.",
        "schedules/deepspeed-3.md",
    ),
    "colossalai-1": Told(
        "ColossalAI",
        "Every parameter is padded and split evenly over the ranks. A bucket takes whole gradients "
        "and is flattened when it is full, then all-reduced; a rank updates its rows and gathers.",
        _COLOSSALAI,
    ),
    "colossalai-2": Told(
        "ColossalAI",
        "As stage 1, but a full bucket is reduce-scattered, and a rank keeps only its rows of the "
        "gradients.",
        _COLOSSALAI,
    ),
    "colossalai-1-old": Told(
        "ColossalAI",
        "Before June 2023: each parameter belongs whole to the rank with the least so far, so some "
        "ranks may own nothing. Buckets are all-reduced, and every rank broadcasts what it updated.",
        _COLOSSALAI,
    ),
    "colossalai-2-old": Told(
        "ColossalAI",
        "As the old stage 1, but a bucket is reduced to the rank that owns its parameters.",
        _COLOSSALAI,
    ),
    "gemini": Told(
        "ColossalAI",
        "Parameters lie in chunks of one size, which are gathered whole and given up lazily. "
        "Gradients overwrite the parameters of their chunk, and a full chunk is reduce-scattered. A "
        "model smaller than 32 Mi elements is one chunk that stays gathered on every rank.",
        "schedules/gemini.md",
    ),
    "megatron": Told(
        "Megatron-LM",
        "Gradients are added to a contiguous float32 buffer, which stays whole; a rank owns a slice "
        "of every bucket of it. By default there is one bucket, reduce-scattered after the backward.",
        "schedules/megatron.md",
    ),
}
OTHERS: Final = "Others"


def maker_of(schedule: str) -> str:
    """Who made the engine; `Others` for one that nobody has told about."""
    return TOLD[schedule].maker if schedule in TOLD else OTHERS


def choices(schedules: Iterable[str]) -> list[dict[str, Any]]:
    """The options of a select, in groups by maker, each with its one-line summary."""
    makers: dict[str, list[dict[str, str]]] = {told.maker: [] for told in TOLD.values()}
    for name in schedules:
        option = {"value": name, "label": name, "says": SCHEDULES[name].summary}
        makers.setdefault(maker_of(name), []).append(option)
    return [{"group": maker, "items": items} for maker, items in makers.items() if items]
