"""ColossalAI 0.3.0 beside `colossalai-1-old` and `-2-old`: its optimizer on Gloo, CUDA stood in for.

That release is from before the even split. `pip install --no-deps colossalai==0.3.0` beside torch;
what was observed is kept under tests/golden/colossalai_old.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from importlib import import_module
from importlib.metadata import distribution
from pathlib import Path
from types import ModuleType
from typing import Any, Final
from unittest.mock import patch

import torch
from torch import distributed as dist

from zerosim.plan import Plan
from zerosim.scenario import plan_of
from zerosim.schedules.colossalai.options import OldOptions
from zerosim_runtime.equality.case import Case, scenario_of
from zerosim_runtime.equality.colossalai import Stream, needed
from zerosim_runtime.equality.colossalai_cases import OLD_CASES
from zerosim_runtime.equality.marked import batches, marked_model
from zerosim_runtime.equality.recording import Replay
from zerosim_runtime.equality.seen import Seen
from zerosim_runtime.equality.watch import Record, watching

__all__ = ["CASES", "NEEDS", "REPLAY", "observe"]
CASES: Final = OLD_CASES
NEEDS: Final = needed("0.3.")


def _plan_of(case: Case) -> Plan:
    return plan_of(scenario_of(case))


def _rows_of(_: Case, rows: Sequence[Seen]) -> list[Seen]:
    return list(rows)


REPLAY: Final = Replay(
    Path(__file__).parents[3] / "tests" / "golden" / "colossalai_old", _plan_of, _rows_of
)


def observe(case: Case, rank: int) -> list[Seen]:
    """Train the case's model under the old LowLevelZeroOptimizer and return what this rank did."""
    scenario, record = scenario_of(case), Record()
    options = OldOptions(**scenario.schedule.options)
    last = scenario.workload.micro_batches - 1
    with _without_cuda() as low_level:
        model = marked_model(scenario, record)
        engine = low_level.LowLevelZeroOptimizer(
            torch.optim.Adam(model.parameters()),
            reduce_bucket_size=options.bucket_elements,
            overlap_communication=options.overlap_communication,
            partition_grad=scenario.schedule.name == "colossalai-2-old",
        )
        with watching(record):
            for batch in batches(scenario, record, rank):
                engine.backward(model(batch))
                if record.micro_batch == last:
                    engine.step()
                    engine.zero_grad()
    return record.seen


class _Optimizer:
    """ColossalaiOptimizer, as far as it is used: it holds the wrapped one."""

    def __init__(self, optim: torch.optim.Optimizer) -> None:
        self.optim = optim


class _Scaler:
    """DynamicGradScaler at a scale of one."""

    scale = 1.0

    def __init__(self, **_: object) -> None:
        pass

    def update(self, _: bool) -> None:
        """The scale stays."""


class _Ranks:
    """global_context: the world is the only group."""

    def get_local_rank(self, _: object) -> int:
        """The rank of this process."""
        return dist.get_rank()

    def get_world_size(self, _: object) -> int:
        """How many there are."""
        return dist.get_world_size()

    def get_ranks_in_group(self, _: object) -> list[int]:
        """All of them."""
        return list(range(dist.get_world_size()))

    def get_group(self, _: object) -> Any:  # noqa: ANN401 - torch's group is untyped
        """The world."""
        return dist.group.WORLD

    def is_initialized(self, _: object) -> bool:
        """There is no model parallelism."""
        return False


def _modules() -> dict[str, ModuleType]:
    """The modules that the optimizer imports around it, with what it takes from them."""
    root = str(distribution("colossalai").locate_file("colossalai"))
    takes: dict[str, dict[str, Any]] = {
        "colossalai": {"__path__": [root]},
        "colossalai.zero": {"__path__": [f"{root}/zero"]},
        "colossalai.amp.naive_amp.grad_scaler": {"DynamicGradScaler": _Scaler},
        "colossalai.context": {"ParallelMode": type("ParallelMode", (), {"DATA": 0, "MODEL": 1})},
        "colossalai.core": {"global_context": _Ranks()},
        "colossalai.logging": {"get_dist_logger": lambda: None},
        "colossalai.nn.optimizer": {"ColossalaiOptimizer": _Optimizer},
        "colossalai.tensor": {
            "ColoParameter": type("ColoParameter", (), {}),
            "ProcessGroup": type("ProcessGroup", (), {}),
        },
        "colossalai.utils": {"is_model_parallel_parameter": lambda _: False},
        "colossalai.utils.cuda": {"get_current_device": lambda: torch.device("cpu")},
    }
    made = {}
    for name, names in takes.items():
        made[name] = ModuleType(name)
        vars(made[name]).update(names)
    return made


@contextmanager
def _without_cuda() -> Iterator[Any]:
    """The old optimizer's module, with what asks for a GPU replaced."""
    stream = Stream()
    replaced: list[tuple[Any, str, Any]] = [
        (torch.cuda, "synchronize", lambda: None),
        (torch.cuda, "Stream", lambda: stream),
        (torch.cuda, "current_stream", lambda: stream),
        (torch.cuda, "stream", lambda _: nullcontext()),
        (torch.cuda, "FloatTensor", torch.FloatTensor),
        (torch.Tensor, "cuda", lambda tensor: tensor),
    ]
    with ExitStack() as stack:
        if "colossalai" not in sys.modules:
            # They stay: what is imported with them would be lost otherwise, and torch registers once.
            sys.modules.update(_modules())
        for owner, name, stand_in in replaced:
            stack.enter_context(patch.object(owner, name, stand_in))
        low_level: Any = import_module("colossalai.zero.low_level.low_level_optim")
        optimizer = low_level.LowLevelZeroOptimizer
        stack.enter_context(patch.object(optimizer, "_sanity_checks", lambda _: None))
        # It tells dtypes apart by CUDA's type names; here there is one.
        stack.enter_context(patch.object(low_level, "split_by_dtype", lambda tensors: [tensors]))
        yield low_level
