"""What the proof trains: cases (a model and how it is used) by modes (what the library is asked for)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from zerosim_runtime.zero.proof.bugs import BUGS

STEPS: Final = 20


@dataclass(frozen=True, slots=True)
class Case:
    """`dropped`: block 1 is left out from the first to the last of these steps, counted from 1.

    `frozen`: parameters whose names begin so take no gradient. `clip`: the largest gradient norm.
    `divided`: a batch is one for all ranks, who take equal parts of it, else each rank has its own.
    """

    model: str
    dropped: tuple[int, int] | None = None
    frozen: tuple[str, ...] = ()
    micro_batches: int = 1
    clip: float | None = None
    divided: bool = False


CASES: Final[Mapping[str, Case]] = {
    "plain": Case("perceptron"),
    "untied": Case("untied"),
    "tied": Case("tied"),
    "uneven": Case("uneven"),
    "drop": Case("tied", dropped=(5, 11)),
    "frozen-blocks": Case("tied", frozen=("blocks.0.", "blocks.2.")),
    "frozen-ends": Case("untied", frozen=("embedding.", "blocks.2.", "norm.", "head.")),
    "accumulation": Case("tied", micro_batches=2),
    "checkpointing": Case("recomputed"),
    "shared": Case("shared"),
    "shared-twice": Case("shared-twice"),
    "shared-recomputed": Case("shared-recomputed"),
    "tiny": Case("tiny"),
    "clipping": Case("tied", clip=0.5),
    "divided": Case("uneven", divided=True),
    "all-at-once": Case("uneven", (5, 11), ("blocks.2.",), micro_batches=2, clip=0.5),
}

MODES: Final[Mapping[str, Mapping[str, Any]]] = {
    "zero1": {"stage": 1},
    "zero2": {"stage": 2},
    "zero2-dynamic": {"stage": 2, "bucket_order": "dynamic"},
    "zero2-a2a": {"stage": 2, "scatter": "all-to-all"},
    "zero2-buckets": {"stage": 2, "bucket_bytes": 4000},
    "zero1-whole": {"stage": 1, "partition": "whole"},
    "zero2-whole": {"stage": 2, "partition": "whole"},
    "zero3-p0": {"stage": 3, "prefetch": 0},
    "zero3-p1": {"stage": 3, "prefetch": 1},
    "zero3-p3": {"stage": 3, "prefetch": 3, "in_flight": 2},
    "zero3-free": {"stage": 3, "prefetch": 1, "keep_last": False},
    "zero3-a2a": {"stage": 3, "scatter": "all-to-all"},
}
"""Fields of `Options`."""


@dataclass(frozen=True, slots=True)
class Training:
    """One training that ranks do and compare: by DDP, or in 16 bits by hand.

    `bug` is planted before (None: nothing). `loss_scale` as in `Options`. `save`: the name of the
    checkpoint written after half of the steps, `load`: that of one to go on from.
    `bar`: how far 16 bits may be off where sums differ.
    """

    case: str
    mode: str
    dtype: str = "float32"
    optimizer: str = "adamw"
    steps: int = STEPS
    bug: str | None = None
    loss_scale: float | None = None
    save: str | None = None
    load: str | None = None
    bar: float = 0.0

    @property
    def name(self) -> str:
        """What a table calls it."""
        words = [self.case, self.mode, self.dtype, self.optimizer, self.bug]
        words += [f"scale={self.loss_scale}"] if self.loss_scale is not None else []
        words += [f"save={self.save}"] if self.save else []
        words += [f"load={self.load}"] if self.load else []
        return "/".join(word for word in words if word)


EXACT: Final = 2
"""Up to so many ranks sums have one order, so that equal means equal bits."""
BAR: Final = 1e-9
"""How far float64 may be off beyond that."""


def matrix(n_ranks: int) -> Iterator[Training]:
    """Every case in every mode: float32 where equal means equal bits, else float64."""
    dtype = "float32" if n_ranks <= EXACT else "float64"
    for case in CASES:
        for mode in MODES:
            for optimizer in ("adamw", "sgd"):
                yield Training(case, mode, dtype, optimizer)
    for mode in ("zero1", "zero2", "zero3-p1"):
        yield Training("drop", mode, dtype, "adam")
        yield Training("drop", mode, dtype, "momentum")


def narrow(n_ranks: int) -> Iterator[Training]:
    """16 bits beside the reference written by hand, where equal means equal bits."""
    if n_ranks > EXACT:
        return
    modes = ("zero1", "zero2", "zero2-dynamic", "zero2-whole", "zero3-p0", "zero3-p1")
    for mode in modes:
        for case in ("tied", "uneven", "drop", "all-at-once"):
            yield Training(case, mode, "bfloat16")
        yield Training("tied", mode, "bfloat16", "sgd")
        yield Training("tied", mode, "float16", loss_scale=256.0)
        yield Training("all-at-once", mode, "float16", loss_scale=0)


SAVED: Final = ("zero1", "zero2", "zero3-p1", "zero2-whole")


def resumed(n_ranks: int) -> Iterator[Training]:
    """Checkpoints: four ranks save at every stage, fewer load them at every stage and go on."""
    for i, mode in enumerate(SAVED):
        if n_ranks == SAVING:
            yield Training("divided", mode, "float64", save=f"four-{mode}")
        else:
            for other in (SAVED[i - 1], mode):
                yield Training("divided", other, "float64", load=f"four-{mode}")
    if n_ranks == EXACT:
        yield Training("drop", "zero3-p1", "float16", loss_scale=0, save="two")
        yield Training("drop", "zero1", "float16", loss_scale=0, load="two")


SAVING: Final = 4


def bugs(n_ranks: int) -> Iterator[Training]:
    """The planted bugs, on three ranks; few steps are enough, but for those of a layer drop."""
    for bug, planted in BUGS.items() if n_ranks == EXACT + 1 else ():
        yield Training(planted.case, planted.mode, "float64", steps=8, bug=bug)


def trainings_of(n_ranks: int, steps: int | None = None) -> list[Training]:
    """All trainings of a world size, of `steps` steps (None: as many as each has)."""
    trainings = [*resumed(n_ranks), *matrix(n_ranks), *narrow(n_ranks), *bugs(n_ranks)]
    return (
        trainings if steps is None else [replace(training, steps=steps) for training in trainings]
    )


_FEW: Final = 12
"""Steps that reach past a layer drop."""


def few_trainings_of(n_ranks: int) -> list[Training]:
    """The short set of the tests: every case, each in one mode of every stage on two ranks, else in one.

    Four ranks take every other case. Checkpoints and planted bugs are all in it.
    """
    trainings = [*resumed(n_ranks)]
    dtype = "float32" if n_ranks <= EXACT else "float64"
    for i, case in enumerate(CASES):
        if n_ranks == SAVING and i % 2:
            continue
        several = [_of_stage(stage)[i % len(_of_stage(stage))] for stage in (1, 2, 3)]
        for k, mode in enumerate(several):
            if n_ranks == EXACT or k == (i + n_ranks) % len(several):
                trainings.append(Training(case, mode, dtype, ("adamw", "sgd")[(i + k) % 2]))
    if n_ranks == EXACT:
        trainings += [Training("all-at-once", mode, "bfloat16") for mode in ("zero2", "zero3-p1")]
        trainings += [
            Training("all-at-once", mode, "float16", loss_scale=0) for mode in ("zero1", "zero3-p1")
        ]
    # Planted bugs come last: after one of them ranks may have to start anew.
    return [
        replace(training, steps=min(training.steps, _FEW))
        for training in (*trainings, *bugs(n_ranks))
    ]


def _of_stage(stage: int) -> list[str]:
    return [name for name, mode in MODES.items() if mode["stage"] == stage]


_NEAR: Final = 2e-2
"""How far bfloat16 may be off under SGD on a GPU, whose products depend on where tensors lie."""


def gpu_trainings_of(n_ranks: int) -> list[Training]:
    """What a GPU should be tried with, most telling first: float64, since bits depend on addresses there.

    Every case in a mode of every stage, every mode that NCCL has, 16 bits, and checkpoints.
    """
    modes = [name for name, mode in MODES.items() if mode.get("scatter", "native") == "native"]
    several = [[m for m in modes if MODES[m]["stage"] == stage] for stage in (1, 2, 3)]
    trainings = [Training("all-at-once", mode, "float64", "sgd") for mode in modes]
    trainings += [
        Training("tied", mode, "bfloat16", "sgd", bar=_NEAR)
        for mode in ("zero1", "zero2", "zero3-p1")
    ]
    trainings += [
        Training(case, of_stage[i % len(of_stage)], "float64", ("adamw", "sgd")[i % 2])
        for i, case in enumerate(CASES)
        for of_stage in several
    ]
    for i, mode in enumerate(SAVED):
        trainings.append(Training("divided", mode, "float64", save=f"{n_ranks}-{mode}"))
        trainings.append(Training("divided", SAVED[i - 1], "float64", load=f"{n_ranks}-{mode}"))
    return [replace(training, steps=min(training.steps, _FEW)) for training in trainings]
