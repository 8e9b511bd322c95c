"""`python -m zerosim_runtime.zero.proof.oracle`: DeepSpeed's ZeRO as an outside oracle for this library's.

Needs DeepSpeed, in a virtual environment of its own: docs/schedules/deepspeed-1-2.md says how. DeepSpeed
clips gradients at 1.0 unless it is told otherwise, and compiles its own Adam unless told to take torch's.
"""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import orjson
import torch
import torch.distributed as dist

from zerosim_runtime.launch import run_ranks
from zerosim_runtime.zero.proof.cases import CASES, Training
from zerosim_runtime.zero.proof.judge import train_steps, trainer_of, wholes
from zerosim_runtime.zero.proof.models import Module
from zerosim_runtime.zero.proof.plain import (
    LR,
    WEIGHT_DECAY,
    Trained,
    batches,
    prepared,
    train_plainly,
)

BAR: Final = 1e-5
"""How far float32 losses may be apart: engines sum gradients in orders of their own."""
_CASES: Final = ("tied", "uneven")
_MODES: Final = (None, "zero1", "zero2", "zero3-p1")
"""What stands beside DeepSpeed's stages 0 to 3; None: torch's DDP."""
_STEPS: Final = 10
_RANKS: Final = 2
_ENVIRONMENT: Final = {"DS_ACCELERATOR": "cpu", "DS_BUILD_OPS": "0"}


@dataclass(frozen=True, slots=True)
class Beside:
    """A stage of DeepSpeed beside ours: this rank's last losses, and the largest differences."""

    case: str
    stage: int
    theirs: float
    ours: float
    loss_error: float
    parameter_error: float


def main(words: list[str]) -> int:
    """Compare on two ranks; 0 if losses agree or DeepSpeed is missing (which is said), else 1."""
    if words:
        return _rank(Path(words[0]))
    if find_spec("deepspeed") is None:
        print("left out: deepspeed is not installed")  # noqa: T201 - its answer
        return 0
    with tempfile.TemporaryDirectory(prefix="zerosim-oracle-") as name:
        directory = Path(name)
        code = run_ranks(["-m", __spec__.name, name], directory, _RANKS)
        if code:
            sys.stderr.write((directory / "torchrun.log").read_text(errors="replace")[-4000:])
            return 1
        found = [Beside(**row) for row in orjson.loads((directory / "found.json").read_bytes())]
    for row in found:
        print(  # noqa: T201 - its answer
            f"{row.case:8} stage {row.stage}: DeepSpeed {row.theirs!r}, ours {row.ours!r}, "
            f"losses {row.loss_error:.1e}, parameters {row.parameter_error:.1e} apart"
        )
    return 0 if all(row.loss_error <= BAR for row in found) else 1


def _rank(directory: Path) -> int:
    os.environ.update(_ENVIRONMENT)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    deepspeed: Any = import_module("deepspeed")
    deepspeed.init_distributed("gloo", verbose=False)
    found = [asdict(row) for row in _beside(deepspeed)]
    if dist.get_rank() == 0:
        (directory / "found.json").write_bytes(orjson.dumps(found))
    dist.destroy_process_group()
    return 0


def _beside(deepspeed: Any) -> Iterator[Beside]:  # noqa: ANN401 - a module that may be missing
    for name in _CASES:
        # DeepSpeed's stage 3 changes torch for good, so ours come first.
        mine = [_ours(name, mode) for mode in _MODES]
        for stage, ours in enumerate(mine):
            theirs = _theirs(deepspeed, name, stage)
            pairs = zip(theirs.losses, ours.losses, strict=True)
            yield Beside(
                case=name,
                stage=stage,
                theirs=theirs.losses[-1],
                ours=ours.losses[-1],
                loss_error=max(abs(a - b) for a, b in pairs),
                parameter_error=max(
                    (theirs.parameters[n] - p).abs().max().item()
                    for n, p in ours.parameters.items()
                ),
            )


def _ours(name: str, mode: str | None) -> Trained:
    case = CASES[name]
    if mode is None:
        return train_plainly(case, torch.float32, "adamw", _STEPS)
    training, model = Training(name, mode, steps=_STEPS), prepared(case, torch.float32)
    with trainer_of(training, model) as trainer:
        losses, _ = train_steps(trainer, training, model, 1, _STEPS)
        return Trained(tuple(losses), wholes(trainer, model))


def _theirs(deepspeed: Any, name: str, stage: int) -> Trained:  # noqa: ANN401 - as above
    case = CASES[name]
    model = prepared(case, torch.float32)
    engine, *_ = deepspeed.initialize(
        model=model, model_parameters=model.parameters(), config=_config(stage)
    )
    losses = [_step(engine, batches(case, model, torch.float32, dist.get_rank(), step)[0])
              for step in range(1, _STEPS + 1)]  # fmt: skip
    parameters = _gathered(deepspeed, model)
    engine.destroy()
    return Trained(tuple(losses), parameters)


def _step(engine: Any, pair: tuple[torch.Tensor, torch.Tensor]) -> float:  # noqa: ANN401 - as above
    loss = engine(*pair)
    engine.backward(loss)
    engine.step()
    return float(loss.detach())


def _gathered(deepspeed: Any, model: Module) -> dict[str, torch.Tensor]:  # noqa: ANN401 - as above
    found: dict[str, torch.Tensor] = {}
    for name, parameter in model.named_parameters():
        if not hasattr(parameter, "ds_id"):
            found[name] = parameter.detach().clone()
            continue
        with deepspeed.zero.GatheredParameters([parameter]):
            found[name] = parameter.detach().clone()
    return found


def _config(stage: int) -> dict[str, Any]:
    settings = {"lr": LR, "weight_decay": WEIGHT_DECAY, "torch_adam": True, "adam_w_mode": True}
    return {
        "train_micro_batch_size_per_gpu": 2,
        "gradient_clipping": 0.0,
        "optimizer": {"type": "AdamW", "params": settings},
        "zero_optimization": {"stage": stage},
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
