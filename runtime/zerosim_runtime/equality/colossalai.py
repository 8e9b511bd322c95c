"""ColossalAI's low-level ZeRO beside `colossalai-1` and `-2`: its optimizer on Gloo, streams stood in for.

Needs ColossalAI, in a virtual environment of its own: `pip install --no-deps colossalai einops psutil
safetensors` beside torch. What was observed is kept under tests/golden/colossalai.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import Any, Final
from unittest.mock import patch

import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

from zerosim.plan import Plan
from zerosim.scenario import Scenario, plan_of, workload_of
from zerosim.schedules import SCHEDULES
from zerosim.schedules.colossalai.options import LowLevelOptions
from zerosim_runtime.equality.case import Case, scenario_of
from zerosim_runtime.equality.colossalai_cases import CASES
from zerosim_runtime.equality.marked import batches, marked_model
from zerosim_runtime.equality.recording import Replay
from zerosim_runtime.equality.seen import Seen
from zerosim_runtime.equality.watch import Record, watching
from zerosim_runtime.model import Model

__all__ = ["CASES", "NEEDS", "REPLAY", "observe"]


def needed(release: str) -> tuple[str, ...]:
    """What a family needs that is observed with a release of ColossalAI, as `0.3.`."""
    try:
        fits = version("colossalai").startswith(release)
    except PackageNotFoundError:
        fits = False
    return ("colossalai" if fits else f"colossalai {release}x", "torch")


NEEDS: Final = needed("0.5.")
_ABSENT: Final = ("bitsandbytes", "galore_torch", "peft")
"""What ColossalAI imports for optimizers and models that no case uses."""


def _plan_of(case: Case) -> Plan:
    return plan_of(scenario_of(case))


def _rows_of(_: Case, rows: Sequence[Seen]) -> list[Seen]:
    return list(rows)


REPLAY: Final = Replay(
    Path(__file__).parents[3] / "tests" / "golden" / "colossalai", _plan_of, _rows_of
)


def observe(case: Case, rank: int) -> list[Seen]:
    """Train the case's model under LowLevelZeroOptimizer and return what this rank was seen to do."""
    scenario, record = scenario_of(case), Record()
    options: LowLevelOptions = SCHEDULES[scenario.schedule.name].options(
        **scenario.schedule.options
    )
    last = scenario.workload.micro_batches - 1
    with _stood_in(), _without_cuda() as low_level:
        model = marked_model(scenario, record)
        engine = low_level.LowLevelZeroOptimizer(
            torch.optim.Adam(model.parameters()), **_arguments(scenario, options)
        )
        model.layers = nn.ModuleList(_run_layers(scenario, model, options.drop_layers.split(",")))
        with watching(record):
            for batch in batches(scenario, record, rank):
                alone = options.no_sync and record.micro_batch < last
                with engine.no_sync() if alone else nullcontext():
                    engine.backward(model(batch))
                if record.micro_batch == last:
                    engine.step()
                    engine.zero_grad()
                    # Its operator hooks do this before a parameter is used.
                    for parameter in model.parameters():
                        low_level.wait_all_gather_handle(parameter)
    return record.seen


def _arguments(scenario: Scenario, options: LowLevelOptions) -> Mapping[str, Any]:
    return {
        "reduce_bucket_size": options.bucket_elements,
        "overlap_communication": options.overlap_communication,
        "overlap_allgather": options.overlap_allgather,
        "partition_grad": scenario.schedule.name == "colossalai-2",
    }


def _run_layers(scenario: Scenario, model: Model, dropped: Sequence[str]) -> Iterator[nn.Module]:
    """The layers that the forward runs, those that are computed again wrapped."""
    for layer, about in zip(model.layers, workload_of(scenario).layers, strict=True):
        if about.name not in dropped:
            yield checkpoint_wrapper(layer) if about.recompute_flops else layer


class Stream:
    """A CUDA stream where there is none: everything runs at once."""

    def wait_stream(self, _: object) -> None:
        """Nothing is under way."""


class _Absent(ModuleType):
    """A module whose every name is an empty class."""

    __path__: list[str] = []  # noqa: RUF012 - what makes a module a package

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - a class of that name
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


class _Finder(MetaPathFinder, Loader):
    """Finds the absent packages, and whatever is asked for inside them."""

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        """A module of its own for every name in an absent package."""
        absent = fullname.partition(".")[0] in _ABSENT
        return ModuleSpec(fullname, self, is_package=True) if absent else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module."""
        return _Absent(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing in it."""


@contextmanager
def _stood_in() -> Iterator[None]:
    """Packages that ColossalAI imports and no case uses, for where they are not installed."""
    finder = _Finder()
    sys.meta_path.append(finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


@contextmanager
def _without_cuda() -> Iterator[Any]:
    """ColossalAI's module of the optimizer, with what asks for a GPU replaced."""
    low_level: Any = import_module("colossalai.zero.low_level.low_level_optim")
    accelerator: Any = type(import_module("colossalai.accelerator").get_accelerator())
    stream = Stream()
    with (
        patch.object(low_level.LowLevelZeroOptimizer, "_sanity_checks", lambda _: None),
        patch.object(accelerator, "Stream", lambda _: stream),
        patch.object(accelerator, "current_stream", lambda _: stream),
        patch.object(accelerator, "stream", lambda *_: nullcontext()),
        patch.object(accelerator, "synchronize", lambda _: None),
        patch.object(torch.Tensor, "record_stream", lambda *_: None),
    ):
        yield low_level
